/** What the page tells the bot, ten times a second while it plays, and at once when something changes. */
export interface Acknowledgement {
  v: 1;
  t: "ack";
  /** Which outgoing track the numbers refer to, from the bot's `turn` message; 0 before the first. */
  epoch: number;
  /** RTP timestamp being heard (48 kHz, modulo 2^32); null where the browser does not say. */
  r: number | null;
  samples: null;
  turn: null;
  /** Milliseconds since the reading. */
  age: number;
  /** Output delay behind the reading, in milliseconds. */
  pd: number;
  /** Whether anything can be heard. */
  live: boolean;
}

/** The page's own reception, under W3C names, once a second. */
export interface ReceptionReport {
  v: 1;
  t: "stats";
  at: number;
  roundTripTime?: number;
  [statistic: string]: number | string | undefined;
}

export type ClientMessage = Acknowledgement | ReceptionReport;
export type Send = (message: ClientMessage) => void;

/** States and directives for a display; sent only when the bot's `state_messages` asks for them. */
export interface StateMessage {
  v: 1;
  t: "state";
  rate_wpm: number | null;
  response_wpm: number | null;
  link: "unknown" | "good" | "recovering" | "degraded" | "poor";
  lost_ms: number;
  snr_db: number | null;
  echo: boolean | null;
  affect: { label: string; confidence: number } | null;
  silence_ms: number | null;
  deferred: boolean;
  directive: string | null;
}

export interface TurnMessage {
  v: 1;
  t: "turn";
  turn: number;
  epoch: number;
  start_r: number | null;
  start_sample: number;
  rate: number;
}

export interface RevokeMessage {
  v: 1;
  t: "revoke";
  turn: number;
  epoch: number;
  after_r: number | null;
  after_sample: number;
  reason: string;
}

export type ServerMessage = TurnMessage | RevokeMessage | StateMessage;

export interface VoiceContextClientOptions {
  /** Of the bot's audio; null where there is none to be had: the bot then estimates. */
  receiver: RTCRtpReceiver | null;
  /** The element that plays it (`srcObject`). */
  element: HTMLMediaElement;
  send: Send;
  /** For the round-trip time. */
  connection?: RTCPeerConnection | null;
  /** If the audio is played through one. */
  audioContext?: AudioContext | null;
  /** Called with `state` messages. */
  onState?: ((state: StateMessage) => void) | null;
}

export class VoiceContextClient {
  constructor(options: VoiceContextClientOptions);
  /** Whether this browser says what it plays. Without, the bot estimates. */
  readonly exact: boolean;
  /** Sends an acknowledgement now. */
  acknowledge(): void;
  /** The user began to speak (a local voice detector, push-to-talk). */
  userSpeaks(): void;
  /** Hand every message from the server to this; returns whether it was one of ours. */
  handle(data: unknown): boolean;
  /** What would be acknowledged now. */
  reading(): Acknowledgement;
  /** Stops everything and unmutes what a revocation muted. */
  close(): void;
}

/** Sends messages as plain JSON over a data channel. */
export function overDataChannel(channel: RTCDataChannel): Send;
/** Sends messages through the official RTVI client (`PipecatClient`). */
export function overRTVI(client: { sendClientMessage(type: string, data?: unknown): void }): Send;
/** The receiver of the bot's audio behind an official SmallWebRTC transport; null when it cannot be had. */
export function receiverOf(transport: unknown): RTCRtpReceiver | null;
/** One of our server messages out of whatever a transport delivers; null for anything else. */
export function parseServerMessage(data: unknown): ServerMessage | null;
