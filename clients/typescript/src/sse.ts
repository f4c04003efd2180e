import { ConnectionError } from "./error.js";

export interface ServerSentEvent {
  event: string;
  data: string;
}

/**
 * The messages of a stream of server-sent events (WHATWG HTML, 9.2.6). Ends when the server ends the stream. Throws
 * `ConnectionError` when it breaks, or when nothing arrives for `silenceMaxMs`.
 */
export async function* serverSentEvents(response: Response, silenceMaxMs: number): AsyncGenerator<ServerSentEvent, void, void> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = "message";
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await inTime(reader.read(), silenceMaxMs);
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const [, field, content] = /^([^:]*)(?:: ?)?(.*)$/s.exec(line) ?? [];
        if (line === "") {
          if (data.length > 0) yield { event, data: data.join("\n") };
          [event, data] = ["message", []];
        } else if (field === "event") {
          event = content ?? "";
        } else if (field === "data") {
          data.push(content ?? "");
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function inTime<T>(read: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ConnectionError(`the stream was silent for ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([read, silence]);
  } catch (error) {
    throw error instanceof ConnectionError ? error : new ConnectionError("the stream broke", { cause: error });
  } finally {
    clearTimeout(timer);
  }
}
