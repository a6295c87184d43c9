export { PipecatClient, RTVIEvent } from "@pipecat-ai/client-js";
export { SmallWebRTCTransport, WavMediaManager } from "@pipecat-ai/small-webrtc-transport";
