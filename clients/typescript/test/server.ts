import { execFile, spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** A server of the tests. `QUIRE` is the path of its program. */
export class Server {
  #process: ChildProcess | undefined;

  private constructor(
    private readonly directory: string,
    readonly port: number,
    /** The file of its certificate; `undefined` without TLS. */
    readonly certificate: string | undefined,
  ) {}

  static async start(): Promise<Server> {
    const server = new Server(await mkdtemp(join(tmpdir(), "quire-ts-")), await freePort(), undefined);
    await server.run();
    return server;
  }

  /** A server with TLS, whose certificate no authority of the system has signed. */
  static async startWithTls(): Promise<Server> {
    const directory = await mkdtemp(join(tmpdir(), "quire-ts-"));
    const [certificate, key] = ["certificate.pem", "key.pem"].map((name) => join(directory, name)) as [string, string];
    const kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    const name = ["-subj", "/CN=quire", "-addext", "subjectAltName=IP:127.0.0.1"];
    await promisify(execFile)("openssl", ["req", ...kind, ...name, "-out", certificate, "-keyout", key]);
    const server = new Server(directory, await freePort(), certificate);
    await server.run(["--tls-certificate", certificate, "--tls-key", key]);
    return server;
  }

  get url(): string {
    return `${this.certificate === undefined ? "http" : "https"}://127.0.0.1:${this.port}`;
  }

  async run(tls: readonly string[] = []): Promise<void> {
    const program = process.env["QUIRE"];
    if (program === undefined) throw new Error("set QUIRE to the path of the program quire");
    const others = ["--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0"];
    const child = spawn(program, ["serve", "--data", join(this.directory, "data"), "--durability", "os", "--http", `127.0.0.1:${this.port}`, ...others, ...tls], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.#process = child;
    await new Promise<void>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
      let text = "";
      child.stdout.on("data", (bytes: Buffer) => {
        text += bytes.toString();
        if (text.includes("serving until")) resolve();
      });
    });
    child.removeAllListeners("exit");
  }

  /** Ends the server with SIGKILL. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    this.#process = undefined;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.directory, { recursive: true });
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const listener = createServer();
    listener.once("error", reject);
    listener.listen(0, "127.0.0.1", () => {
      const address = listener.address();
      listener.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
