"""Runs the clients in TypeScript and Go, the example with curl, and clients whose server is killed.

Usage: run.py QUIRE TARGET [KILLS]; QUIRE is the program, TARGET a folder for what is built. With KILLS, it only kills
servers, KILLS times over HTTP and over gRPC. A client whose tools are absent is skipped, and a line reports it.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPESCRIPT = ROOT / "clients/typescript"
GO = ROOT / "clients/go"


class Skip(Exception):
    """The reason why a client is skipped."""


@contextlib.contextmanager
def server(quire):
    """A server on free ports with an empty database: its addresses, by front end."""
    with tempfile.TemporaryDirectory() as folder:
        listen = [word for name in ("http", "grpc", "kafka") for word in (f"--{name}", "127.0.0.1:0")]
        command = [quire, "serve", "--data", f"{folder}/data", "--durability", "os", *listen]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            addresses = {}
            for line in process.stdout:
                if match := re.match(r"(http|grpc|kafka) +(\S+)", line):
                    addresses[match[1]] = match[2]
                if line.startswith("serving"):
                    break
            if len(addresses) != 3:
                raise RuntimeError(f"the server ended with {process.wait()}, and listened on {addresses}")
            yield addresses
        finally:
            process.kill()
            process.wait()


def run(command, folder=ROOT, **environment):
    """Runs a command to its end; returns its standard output."""
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stdout)
        raise RuntimeError(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def needs(program, *arguments):
    """Skips the client unless this program runs."""
    try:
        subprocess.run([program, *arguments], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Skip(f"can't run {program}: {error}") from error


def fetched(command, folder, **environment):
    """Runs a command that downloads; skips the client when it fails."""
    try:
        run(command, folder, **environment)
    except RuntimeError as error:
        raise Skip(f"its packages are unavailable: {error}") from error


def typescript(quire, target):
    """Compiles the client strictly, and runs its tests, which start servers and kill them."""
    needs("node", "--version")
    needs("npm", "--version")
    folder = target / "clients-typescript"
    for part in ("src", "test", "examples"):
        shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(TYPESCRIPT / part, folder / part)
    for part in ("package.json", "tsconfig.json"):
        shutil.copy(TYPESCRIPT / part, folder / part)
    fetched(["npm", "install", "--silent", "--no-audit", "--no-fund"], folder)
    schema = folder / "schema.ts"
    generator = json.loads((TYPESCRIPT / "package.json").read_text())["scripts"]["schema"]
    fetched([*generator.removesuffix("src/schema.ts").split(), str(schema)], TYPESCRIPT)
    if schema.read_text() != (TYPESCRIPT / "src/schema.ts").read_text():
        raise RuntimeError("docs/openapi.json has changed: in clients/typescript, run npm run schema")
    schema.unlink()
    shutil.rmtree(folder / "dist", ignore_errors=True)
    tests = run(["npm", "test", "--silent"], folder, QUIRE=str(quire))
    passed = int(re.search(r"^# pass (\d+)$", tests, re.M)[1])
    assert passed >= 11, tests
    print(f"TypeScript: {passed} tests passed")


def go(quire, target):
    """Compares the generated code with proto/, runs the example, and kills servers under clients that repeat calls."""
    needs("go", "version")
    local = {"GOTOOLCHAIN": "local"}
    fetched(["go", "mod", "download"], GO, **local)
    run(["go", "vet", "./..."], GO, **local)
    run(["go", "run", "./internal/generate", "-check"], GO, **local)
    tests = run(["go", "test", "-count=1", "-v", "."], GO, QUIRE=str(quire), **local)
    assert "--- PASS: TestAKey" in tests, tests
    program = str(target / "clients-go-orders")
    run(["go", "build", "-o", program, "./examples/orders"], GO, **local)
    with server(quire) as addresses:
        printed = run([program, addresses["grpc"]])
    assert re.fullmatch(r"the second attempt: .*Aborted.*condition.*\nmails: 1\n", printed), printed
    print("Go: the example of orders did each step once")
    killed_over_grpc(quire, target)


def killed_over_grpc(quire, target, *kills):
    """Kills servers under clients that repeat unanswered calls by their keys."""
    needs("go", "version")
    program = str(target / "clients-go-killed")
    run(["go", "build", "-o", program, "./internal/killed"], GO, GOTOOLCHAIN="local")
    print(run([program, str(quire), *kills]), end="")


def killed(quire, _target, *kills):
    """Kills servers under clients that repeat unanswered requests by their keys."""
    print(run([sys.executable, "-B", "tests/clients/killed.py", str(quire), *kills]), end="")


def curl(quire, _target):
    """Runs the example with curl."""
    needs("curl", "--version")
    with server(quire) as addresses:
        printed = run(["sh", "examples/orders/orders.sh", f"http://{addresses['http']}"])
    lines = printed.splitlines()
    assert lines[1] == f"sent again: {lines[0]}", printed
    assert "condition 0" in lines[2] and lines[-1] == "mails: 1, events: 2", printed
    print("curl: the example of orders did each step once")


def main():
    quire, target = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    kills = sys.argv[3:]
    for client in (killed, killed_over_grpc) if kills else (typescript, go, curl, killed):
        try:
            client(quire, target, *kills)
        except Skip as why:
            print(f"SKIPPED {client.__name__}: {why}")


if __name__ == "__main__":
    main()
