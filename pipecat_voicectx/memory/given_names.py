"""Given names, to know one that a recognizer wrote without a capital."""

from __future__ import annotations

__all__ = ["GIVEN_NAMES"]

# Names that are words, too, are not on it: a clause must not become a name by "may", "rose" and "grant" alone.
_NAMES = """
aaron abby abdul abigail adam adele adrian agnes ahmed aidan aiden aisha alan alana albert aldo alejandra alejandro
alex alfred ali alice alicia alison allen allison alma alonzo alvin amanda amelia amir amy ana anastasia anders
andre andrea andrew andy angel angela angelo angie anita ann anna anne anthony antoine antonia antonio ariana ariel
arnold arthur ashley audrey austin ava avery barbara barry beatrice becky ben benjamin bernard bernice bert bessie
beth betty bianca blake bob bonnie brad bradley brandon brenda brent brett brian brianna bridget brooke bruce bruno
bryan bryce byron caleb calvin cameron camila candace carl carla carlos carlton carly carmen carol caroline carrie
casey cassandra cecilia celeste cesar chad charles charlotte chelsea cheryl chloe chris christian christina
christine christopher cindy claire clara clarence clark claude claudia clay clayton clifford clint clyde cody colin
colleen connor corey courtney craig crystal curtis cynthia damian damien damon dan dana daniel daniela danielle
danny darlene darrell darren dave david dean deb debbie deborah debra denise dennis derek desmond devon diana diego
dominic dominique don donald donna donnie doreen doris dorothy doug douglas duane dustin dwayne dwight dylan earl ed
eddie edgar edith edna eduardo edward edwin eileen elaine eleanor elena eleni eli elijah elise elizabeth ella ellen
ellie elmer elsie emily emma enrique eric erik ernest ernesto esteban estelle esther ethan ethel eugene eva evan
evangeline evelyn fatima felicia felix fernando fiona florence floyd frances francesca francine francis francisco
frank frankie franklin fred freddie frederick freya gabriel garrett gary gavin gene geoff geoffrey george gerald
geraldine gerard gertrude gilbert gina giulia gladys glen glenn gloria gordon graham greg gregory gretchen guadalupe
gus guy hank hannah harold harriet harry harvey hassan hattie hazel heather hector heidi helen henry herbert herman
hilda holly howard hubert hugo ian ibrahim ines ingrid irene iris irma irving isaac isabel isabella isaiah ismael
ivan jack jackie jacob jaime jake jamal james jamie jan jane janet janice jared jason javier jay jean jeanette
jeanne jeff jeffrey jenna jennifer jenny jeremy jerome jerry jesse jessica jesus jill jim jimmy jo joan joanna
joanne jocelyn jodie joe joel joey john johnny jonas jonathan jordan jorge jose joseph joshua josie joyce juan
juanita judith judy julia julian julie julio june justin kai kara karen karina karl kate katherine kathy katie
katrina kayla keisha keith kelly ken kendra kenneth kevin khalid kim kirk kristen kristin kyle lamar lance larry
lars latoya laura lauren lawrence lea leah leila lena leo leon leonard leroy leslie lester liam lillian lily linda
lionel lisa liz lloyd logan lois lola lonnie lorenzo loretta lori lorraine lou louie louis louise lucas lucia lucy
luis luisa luke luther luz lydia lynn mabel mackenzie magda maggie malcolm mandy manuel marcia marco marcus margaret
margarita margie maria marian marianne marie marilyn mario marion marisol marjorie marlene marshall marta martha
martin marvin mary mateo matilda matt matthew maureen maurice mavis max maya megan mei melanie melinda melissa
melvin mercedes meredith mia micah michael michelle mickey miguel mike mildred milton minnie miranda mitch mitchell
mohamed mohammed molly monica morgan morris muriel myra myrtle nadia nadine nancy naomi natalie natasha nathan
nathaniel ned neil nelson nettie nicholas nick nicolas nicole nigel nina noah nora norma norman odette olga olive
olivia ollie omar orlando oscar otis owen pablo paige pam pamela patricia patrick patsy patti paul paula paulette
pauline pearl pedro peggy penny percy perry peter phil philip phillip phoebe phyllis preston priya rachel rafael
rahul raj ralph ramon randall randy raquel raul ravi raymond rebecca regina reginald renee rex rhonda ricardo
richard ricky riley rita robert roberto robin rochelle rocio roderick rodney rodrigo roger roland roman ron ronald
ronnie rosa rosalie rosario roscoe rose rosemary ross roxanne roy ruben rudy rufus russell ruth ruthie ryan sabrina
sadie sally salvador sam samantha sammy samuel sandra santiago sara sarah sasha saul scott sean sebastian sergei
sergio seth shane shannon sharon shaun shawn sheila sheldon shelly sherry shirley sid sidney silvia simon sofia
sonia sophia sophie stacy stan stanley stefan stella steph stephanie stephen steve steven stewart stuart sue susan
suzanne sylvester sylvia tamara tammy tanya tara ted teresa terrance terrence terry tess tessa thelma theo theodore
theresa thomas tiffany tim timothy tina toby todd tom tomas tommy tony tracey tracy travis trent trevor trish troy
tyler tyrone valentina valerie vanessa vera vernon veronica vicki victor victoria vikram vince vincent viola violet
virgil virginia vivian wade wallace walt walter wanda warren wayne wendell wendy wesley whitney wilbur wilfred
willard william willie wilma winston xavier xiomara yasmin yesenia yolanda yuki yusuf yvette yvonne zach zachary
zara zoe"""
GIVEN_NAMES = frozenset(_NAMES.split())
"""Common given names in lower case."""
