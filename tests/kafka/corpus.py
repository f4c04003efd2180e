"""Writes the corpora that the tests replay and the fuzzers begin with: what clients send that we did not write.

    corpus.py batches FOLDER                       record batches by kafka-python, of each codec and format
    corpus.py requests PORT SERVER FOLDER CLIENT   listens on PORT, passes everything on to SERVER (host:port), and keeps the first
                                                   request of each API and version; the server advertises PORT meanwhile
"""

import asyncio
import pathlib
import sys

REQUEST_BYTES_MAX = 2000


def batches(folder):
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

    def write(name, builder, headers=True):
        for number in range(12):
            key = None if number % 3 == 0 else b"key %d" % (number % 4)
            value = None if number % 5 == 0 else b"value " * number
            more = {"headers": [("a", b"1"), ("b", None)][: number % 3]} if headers else {}
            builder.append(number, 1_700_000_000_000 + 7 * number, key, value, **more)
        (folder / name).write_bytes(bytes(builder.build()))

    def of(codec, producer_id=-1, producer_epoch=-1, base_sequence=-1, is_transactional=False):
        return DefaultRecordBatchBuilder(2, codec, is_transactional, producer_id, producer_epoch, base_sequence, 1 << 20)

    for codec, name in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        write(name, of(codec))
    write("idempotent", of(0, 7, 1, 40))
    write("transactional", of(0, 7, 1, 40, True))
    for magic in [0, 1]:
        write(f"old-{magic}", LegacyRecordBatchBuilder(magic, 0, 1 << 20), headers=False)


class Recorder:
    def __init__(self, server, folder, client):
        self.host, port = server.rsplit(":", 1)
        self.port = int(port)
        self.folder, self.client = folder, client

    def keep(self, frame):
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        path = self.folder / f"{key:02}-v{version}-{self.client}"
        if len(frame) <= REQUEST_BYTES_MAX and not path.exists():
            path.write_bytes(len(frame).to_bytes(4, "big") + frame)

    async def requests(self, client, server):
        while True:
            length = await client.readexactly(4)
            frame = await client.readexactly(int.from_bytes(length, "big"))
            self.keep(frame)
            server.write(length + frame)
            await server.drain()

    async def answers(self, server, client):
        while data := await server.read(1 << 16):
            client.write(data)
            await client.drain()

    async def serve(self, reader, writer):
        server_reader, server_writer = await asyncio.open_connection(self.host, self.port)
        both = [self.requests(reader, server_writer), self.answers(server_reader, writer)]
        tasks = [asyncio.create_task(one) for one in both]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server_writer.close()
        writer.close()


async def record(port, recorder):
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def main():
    match sys.argv[1:]:
        case ["batches", folder]:
            batches(pathlib.Path(folder))
        case ["requests", port, server, folder, client]:
            asyncio.run(record(int(port), Recorder(server, pathlib.Path(folder), client)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
