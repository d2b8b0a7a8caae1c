"""Controls two stopped guests by QMP, migrates the first into the second, and checks that their memories are equal.

migrate.py DIRECTORY URI [pin]: DIRECTORY holds the sockets source.qmp and target.qmp, and receives the memory images.
"""

import hashlib
import json
import socket
import sys
import time

MEMORY = 64 << 20
LIMIT = 60


class Guest:
    def __init__(self, directory, name):
        self.image = f"{directory}/{name}.memory"
        until = time.monotonic() + LIMIT
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(f"{directory}/{name}.qmp")
                break
            except OSError:
                self.socket.close()
                assert time.monotonic() < until, f"{name} does not listen"
                time.sleep(0.05)
        self.lines = self.socket.makefile("rw")
        self.lines.readline()
        self.call("qmp_capabilities")

    def call(self, name, **arguments):
        self.lines.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = json.loads(self.lines.readline())
            if "event" not in answer:
                assert "return" in answer, f"{name}: {answer}"
                return answer["return"]

    def memory(self):
        self.call("pmemsave", val=0, size=MEMORY, filename=self.image)
        with open(self.image, "rb") as image:
            return image.read()


directory, uri, pin = sys.argv[1], sys.argv[2], sys.argv[3:] == ["pin"]
target, source = Guest(directory, "target"), Guest(directory, "source")
for guest in target, source:
    guest.call("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": pin}])
source.call("migrate-set-parameters", **{"max-bandwidth": 1 << 33})
target.call("migrate-incoming", uri=uri)
source.call("migrate", uri=uri)
until = time.monotonic() + LIMIT
while (progress := source.call("query-migrate")).get("status") not in ("completed", "failed", "cancelled"):
    assert time.monotonic() < until, progress
    time.sleep(0.05)
assert progress["status"] == "completed", progress
while target.call("query-migrate").get("status") != "completed":
    assert time.monotonic() < until, "the target has not taken over"
    time.sleep(0.05)
old, new = source.memory(), target.memory()
assert any(old[16 << 20:32 << 20]), "the pattern is not in the source's memory"
assert hashlib.sha256(old).digest() == hashlib.sha256(new).digest(), "the memories differ"
print("alike")
