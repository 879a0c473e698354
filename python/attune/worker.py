"""python3 -m attune.worker: a worker of `attune gate` that has PyTorch's arms beside attune's own.

    torch:flash, torch:cudnn, torch:efficient, torch:math   one back end of scaled_dot_product_attention
    torch:default                                           as PyTorch chooses; torch:cpu on a CPU
    py:FILE:FUNCTION                                        any callable: see arms.python_arm

--validated: another worker has found that PyTorch's back ends agree, and this one need not look again.

The protocol, the device and attune's arms are the C library's; this adds what only Python can do.
"""
import ctypes as c
import itertools
import sys

from attune import arms, library

NOT_FOUND = 4


class Hooks:
    """The library's hooks, over the arms that are open. The library calls from the thread that serves."""

    def __init__(self, lib):
        self.c, self.open_arms, self.numbers = lib.c, {}, itertools.count(1)
        self.c.attune_report.argtypes = [c.c_int, c.c_char_p]
        # ctypes keeps no reference to these: they live as long as this object does.
        self.members = {"run": library.RUN(self.run), "run_own": library.RUN_OWN(self.run_own),
                        "capture": library.CAPTURE(self.capture), "release": library.RELEASE(self.release),
                        "close": library.CLOSE(self.close)}
        self.struct = library.ArmHooks(size=c.sizeof(library.ArmHooks), open=library.OPEN(self.open))

    def guarded(self, function, otherwise):
        """A status of what happens in `function`; nothing of Python's gets past here."""
        try:
            function()
            return 0
        except arms.Refused as refused:
            return self.c.attune_report(refused.status, str(refused).encode())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}".replace("\n", " ")
            status = arms.OUT_OF_MEMORY if type(error).__name__ == "OutOfMemoryError" else otherwise
            return self.c.attune_report(status, text.encode())

    def open(self, _, name, problem, device, threads, arm):
        name = name.decode()
        if not name.startswith(("torch:", "py:")):
            return NOT_FOUND
        return self.guarded(lambda: self.fill(name, problem.contents, device, threads, arm.contents), arms.UNSUPPORTED)

    def fill(self, name, problem, device, threads, arm):
        if device < 0 and threads > 0:
            arms.import_torch().set_num_threads(threads)
        made = arms.Arm(name, problem, device)
        arm.self = next(self.numbers)
        self.open_arms[arm.self] = made
        made.account_bytes = made.account.encode()
        arm.account, arm.traits = made.account_bytes, made.traits
        for member in ("run", "close", *(("run_own",) if device < 0 else ("capture", "release"))):
            setattr(arm, member, self.members[member])

    def run(self, number, call):
        return self.guarded(lambda: self.open_arms[number].run(call.contents), arms.DEVICE_ERROR)

    def run_own(self, number, call, output):
        return self.guarded(lambda: self.open_arms[number].run_own(call.contents, output.contents), arms.DEVICE_ERROR)

    def capture(self, number, calls, count, graph, outputs):
        def make():
            graph[0] = self.open_arms[number].capture(calls[:count], [outputs[i] for i in range(count)])
        return self.guarded(make, arms.DEVICE_ERROR)

    def release(self, number, graph):
        self.guarded(lambda: self.open_arms[number].release(graph), arms.DEVICE_ERROR)

    def close(self, number):
        self.guarded(lambda: self.open_arms.pop(number, None), arms.DEVICE_ERROR)


def main():
    # PyTorch must find the cuDNN that it brings: were another loaded first, it would refuse to work. Without PyTorch
    # there are still py: arms.
    try:
        arms.import_torch()
    except arms.Refused:
        pass
    arms.trusted = "--validated" in sys.argv[1:]
    lib = library.Library(name=library.GATE)
    hooks = Hooks(lib)
    try:
        lib.check(lib.c.attune_worker_serve(c.byref(hooks.struct)))
    except library.Error as failed:
        sys.exit(f"attune.worker: {failed}")


if __name__ == "__main__":
    main()
