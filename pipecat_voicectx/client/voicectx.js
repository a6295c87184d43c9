// Tells the bot what the user has really heard of it. Plain ES module, no build step, no dependency.
//
//   import { VoiceContextClient, overDataChannel } from "./voicectx.js";
//   const voicectx = new VoiceContextClient({
//     receiver,                        // RTCRtpReceiver of the bot's audio
//     element,                         // the <audio> element that plays it (srcObject)
//     send: overDataChannel(channel),  // or overRTVI(pipecatClient)
//   });
//   channel.addEventListener("message", (event) => voicectx.handle(event.data));
//   ... voicectx.close();
//
// Beside the official client (`@pipecat-ai/client-js` with its SmallWebRTC transport), once it is connected:
//
//   const voicectx = new VoiceContextClient({
//     receiver: receiverOf(transport), element, send: overRTVI(pipecatClient),
//   });
//   pipecatClient.on(RTVIEvent.ServerMessage, (data) => voicectx.handle(data));
//
// Every 100 ms, and at once on pause, play, mute, volume change, interruption and (call `userSpeaks()`) when the user
// begins to speak, it sends an acknowledgement: the RTP time being heard. That is the newest packet taken from the
// jitter buffer (`getSynchronizationSources`, updated every 20 ms), run on to now, less the delay of the output behind
// it (`media-playout` statistics). Where a browser lacks the first, `r` is null and the bot estimates; where it lacks
// the second (Firefox, Safari), 40 ms are assumed, or the output latency of an AudioContext you pass.
//
// The media element keeps its clock running while paused or muted, so what cannot be heard is said with `live`.
// On `revoke` the element is muted until the next turn begins, at most a second: up to 250 ms of withdrawn speech
// (450 ms after a stall) would be heard otherwise.

const ACK_INTERVAL_MS = 100;
const STATS_INTERVAL_MS = 1000;
// Beyond the 20 ms between packets something is wrong with the reading; do not run on further than this.
const MAX_AGE_MS = 60;
// A reading older than this means that nothing is being played.
const STALE_MS = 200;
// What Chromium measures on a laptop is 23-45 ms.
const DEFAULT_OUTPUT_DELAY_MS = 40;
const MAX_REVOKED_MS = 1000;
const RTP_PER_MS = 48;
const STATS_FIELDS = [
  "packetsReceived", "packetsLost", "jitter", "totalSamplesReceived", "concealedSamples", "silentConcealedSamples",
  "concealmentEvents", "jitterBufferDelay", "jitterBufferEmittedCount",
];

/** Sends messages as plain JSON over an RTCDataChannel. */
export function overDataChannel(channel) {
  return (message) => {
    // Pipecat's SmallWebRTC transport drops messages without a type.
    if (channel.readyState === "open") channel.send(JSON.stringify({ type: "voicectx", ...message }));
  };
}

/** Sends messages through the official RTVI client (`@pipecat-ai/client-js`). */
export function overRTVI(client) {
  return (message) => client.sendClientMessage("voicectx", message);
}

/**
 * The receiver of the bot's audio behind an official SmallWebRTC transport. It keeps its connection to itself; when
 * that moves this is null, and the bot then goes by its estimate.
 */
export function receiverOf(transport) {
  const receivers = transport?.pc?.getReceivers?.() ?? [];
  return receivers.find((receiver) => receiver.track?.kind === "audio") ?? null;
}

/** Extracts one of our server messages from whatever a transport delivers; null for anything else. */
export function parseServerMessage(data) {
  let message = data;
  if (typeof message === "string") {
    try {
      message = JSON.parse(message);
    } catch {
      return null;
    }
  }
  if (message && message.label === "rtvi-ai" && message.type === "server-message") message = message.data;
  if (message && message.type === "voicectx") message = message.data;
  return message && message.v === 1 && ["turn", "revoke", "state"].includes(message.t) ? message : null;
}

export class VoiceContextClient {
  /**
   * @param {object} options
   * @param {RTCRtpReceiver | null} options.receiver null where there is none to be had: the bot then estimates
   * @param {HTMLMediaElement} options.element
   * @param {(message: object) => void} options.send
   * @param {RTCPeerConnection} [options.connection] for the round-trip time
   * @param {AudioContext} [options.audioContext] if the audio is played through one
   * @param {(state: object) => void} [options.onState] called with `state` messages
   */
  constructor({ receiver, element, send, connection = null, audioContext = null, onState = null }) {
    Object.assign(this, { receiver, element, send, connection, audioContext, onState });
    this.epoch = 0;
    this.outputDelayMs = DEFAULT_OUTPUT_DELAY_MS;
    this._playout = null;
    this._wasMuted = null; // what the page had chosen before a revocation muted the element
    this._revokeTimer = null;
    this._now = this._now.bind(this);
    this._onElement = () => this.acknowledge();
    for (const name of ["pause", "play", "volumechange", "ended", "emptied"]) {
      element.addEventListener(name, this._onElement);
    }
    this._onVisibility = () => this.acknowledge();
    document.addEventListener("visibilitychange", this._onVisibility);
    this._ticker = startTicker(ACK_INTERVAL_MS, () => this.acknowledge());
    this._statsTicker = startTicker(STATS_INTERVAL_MS, () => this._reportStats());
  }

  /** Sends an acknowledgement now. */
  acknowledge() {
    this._trySend(this.reading());
  }

  /** The user began to speak (a local voice detector, push-to-talk): where playback was right now matters most. */
  userSpeaks() {
    this.acknowledge();
  }

  /** Hand every message from the server to this; it picks out its own. Returns whether it was one. */
  handle(data) {
    const message = parseServerMessage(data);
    if (!message) return false;
    if (message.t === "turn") this._onTurn(message);
    else if (message.t === "revoke") this._onRevoke(message);
    else this.onState?.(message);
    return true;
  }

  /** Whether this browser says what it plays. Without, as in Safari so far, the bot estimates. */
  get exact() {
    return typeof this.receiver?.getSynchronizationSources === "function";
  }

  /** What would be acknowledged now. */
  reading() {
    const source = this._source();
    const audible = this._audible();
    const base = { v: 1, t: "ack", epoch: this.epoch, r: null, samples: null, turn: null, age: 0 };
    const pd = Math.round(this.outputDelayMs);
    if (!source) return { ...base, pd, live: false };
    const age = Math.max(0, this._now() - source.timestamp);
    const time = source.rtpTimestamp + (Math.min(age, MAX_AGE_MS) - this.outputDelayMs) * RTP_PER_MS;
    const r = ((Math.round(time) % 2 ** 32) + 2 ** 32) % 2 ** 32;
    return { ...base, r, age: Math.min(60000, Math.round(age)), pd, live: audible && age < STALE_MS };
  }

  /** Stops everything and unmutes what a revocation muted. */
  close() {
    this._ticker();
    this._statsTicker();
    this._endRevocation();
    for (const name of ["pause", "play", "volumechange", "ended", "emptied"]) {
      this.element.removeEventListener(name, this._onElement);
    }
    document.removeEventListener("visibilitychange", this._onVisibility);
  }

  _now() {
    return performance.timeOrigin + performance.now();
  }

  _source() {
    const sources = this.receiver?.getSynchronizationSources?.() ?? [];
    const source = sources[0];
    return source && Number.isFinite(source.rtpTimestamp) && Number.isFinite(source.timestamp) ? source : null;
  }

  _audible() {
    const track = this.receiver?.track;
    const muted = this._wasMuted !== null || this.element.muted;
    const ended = track && !(track.enabled && track.readyState === "live");
    return !this.element.paused && !muted && this.element.volume > 0 && !ended;
  }

  _onTurn(message) {
    this.epoch = message.epoch;
    this._endRevocation();
  }

  _onRevoke(message) {
    if (message.epoch !== this.epoch && this.epoch !== 0) return;
    if (this._wasMuted === null) {
      this._wasMuted = this.element.muted;
      this.element.muted = true;
    }
    clearTimeout(this._revokeTimer);
    this._revokeTimer = setTimeout(() => this._endRevocation(), MAX_REVOKED_MS);
    this.acknowledge();
  }

  _endRevocation() {
    clearTimeout(this._revokeTimer);
    if (this._wasMuted !== null) {
      this.element.muted = this._wasMuted;
      this._wasMuted = null;
    }
  }

  async _reportStats() {
    const report = { v: 1, t: "stats", at: Math.round(this._now()) };
    try {
      for (const stats of this.receiver ? (await this.receiver.getStats()).values() : []) {
        if (stats.type === "media-playout") this._measureOutput(stats);
        if (stats.type === "inbound-rtp" && stats.kind === "audio") {
          for (const name of STATS_FIELDS) if (Number.isFinite(stats[name])) report[name] = stats[name];
        }
      }
      for (const stats of this.connection ? (await this.connection.getStats()).values() : []) {
        const nominated = stats.type === "candidate-pair" && stats.nominated;
        if (nominated && Number.isFinite(stats.currentRoundTripTime)) report.roundTripTime = stats.currentRoundTripTime;
      }
    } catch {
      return; // the connection is closing
    }
    if (!this._playout && this.audioContext) {
      const latency = this.audioContext.outputLatency || this.audioContext.baseLatency || 0;
      if (latency > 0) this.outputDelayMs = latency * 1000;
    }
    this._trySend(report);
  }

  _measureOutput(stats) {
    const before = this._playout;
    if (before && stats.totalSamplesCount > before.totalSamplesCount) {
      const samples = stats.totalSamplesCount - before.totalSamplesCount;
      const delay = ((stats.totalPlayoutDelay - before.totalPlayoutDelay) / samples) * 1000;
      if (delay >= 0 && delay < 1000) this.outputDelayMs = delay;
    }
    this._playout = { totalSamplesCount: stats.totalSamplesCount, totalPlayoutDelay: stats.totalPlayoutDelay };
  }

  _trySend(message) {
    try {
      this.send(message);
    } catch {
      // A closed channel. The bot goes on by its write clock.
    }
  }
}

// Timers of a hidden tab fire once a second or less; a worker's do not. Returns a function that stops it.
function startTicker(intervalMs, callback) {
  try {
    const code = `setInterval(() => postMessage(0), ${Number(intervalMs)});`;
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const worker = new Worker(url);
    URL.revokeObjectURL(url);
    worker.onmessage = callback;
    return () => worker.terminate();
  } catch {
    const timer = setInterval(callback, intervalMs);
    return () => clearInterval(timer);
  }
}
