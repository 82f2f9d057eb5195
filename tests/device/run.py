#!/usr/bin/env python3
"""Runs the device suite on this machine's NVIDIA GPU, in the folder that pack.sh has filled:

    run.py [--list] [--at-once N] [--within SECONDS] [PART...]          every part, or those named

Each part prints a line with what passed, failed and was skipped, and the commands that failed with the end of what they said; logs/ keeps
everything. Most of the time goes into compiling on the processor, so commands run beside each other, as many as there are processors; each has a
time limit. The last line is "N passed, N failed". Needs the standard library only; torch, transformers, CuPy and JAX are used where Python has
them, and what needs them is counted as skipped where not."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
BIN, TREE = HERE / "bin", HERE / "tree"
TAIL = 12  # lines of a command that failed
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
# What the sanitizers watch: a few blocks are enough to find what they look for, and they take a hundred times as long.
WATCHED = {
    "smoke/mha-f32.so": "B=1,H=1,S=40,T=72",
    "smoke/gqa-bf16.so": "B=1,H=2,Hk=1,S=130,T=130",
    "smoke/relative_bias-f16.so": "B=1,H=2,S=100,T=100,W=65",
    "smoke/rope-bf16.so": "B=1,H=1,S=129,T=129",
    "smoke/gqa-bf16-groups-256.so": "B=1,H=2,Hk=1,S=133,T=133",
    "smoke/sliding_window-f16-groups-80.so": "B=1,H=2,S=200,T=200",
}
SERVED = ["--batch", "5", "--keys", "40,1,300,17", "--page", "16", "--chunk", "40", "--shape", "H=4,Hk=2"]  # `aule bench --serve`
FOLLOWING = ("racecheck", "synccheck")  # tools for which for_sanitizer.py made NAME-watched.so

# Cases of scripts_test and sums_test whose scripts are not among the examples; ends of paths.
HARD = ("pair_bias", "cross", "softcap", "unseen", "far_sink", "low", "simplified", "chosen", "constant_end", "band", "window_of_left", "no_scales", "empty_rows",
        "empty_plain_rows", "negated_statistic", "dropout_input")
RECURRENT = re.compile(r"^\s*linear\b", re.M)
SUMS = ("mha", "uniform", "/low", "/low_sigmoid", "/sigmoid", "relu", "alibi", "temperature", "scalable_softmax", "relative_bias", "kerple",
        "attention_sink", "qk_norm")


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


@dataclass
class Command:
    """What to run, and how what it says is counted."""

    label: str
    words: list
    count: Callable
    folder: Path = HERE


@dataclass
class Part:
    what: str
    limit: int  # seconds for each command
    commands: Callable


# ---- counting


def by_status(status, said):
    return Counts(skipped=1) if status == 77 else Counts(passed=int(status == 0), failed=int(status != 0))


def by_last_line(status, said):
    """ "N passed, M failed", as our own programs end."""
    found = re.findall(r"^(\d+) passed, (\d+) failed$", said, re.M)
    if status == 77 or not found:
        return by_status(status or 1, said)
    counts = Counts(*map(int, found[-1]))
    return counts if counts.failed or status == 0 else Counts(counts.passed, 1)


def by_unittest(status, said):
    ran, ended = re.findall(r"^Ran (\d+) tests? in", said, re.M), re.findall(r"^(OK|FAILED)(?: \((.*)\))?$", said, re.M)
    if not ran or not ended:
        return Counts(failed=1)
    parts = dict(re.findall(r"([\w ]+?)=(\d+)", ended[-1][1].replace(", ", ",")))
    failed, skipped = int(parts.get("failures", 0)) + int(parts.get("errors", 0)), int(parts.get("skipped", 0))
    return Counts(max(int(ran[-1]) - failed - skipped, 0), failed + (status != 0 and not failed), skipped)


def by_sanitizer(status, said):
    clean = re.search(r"(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)", said)
    return by_status(0 if status == 0 and clean else 1, said)


def demo_ran(device, said):
    """The demo's row of a device has an error where the device ran; it may have been skipped."""
    return bool(re.search(rf"^ +{device} +[0-9]", said, re.M))


def by_blindness(status, said):
    """A right program that the tool takes for a wrong one: where it does not, what is made around that can go."""
    return by_status(0 if re.search(r"ERROR SUMMARY: [1-9]|SUMMARY: [1-9]\d* hazard", said) else 1, said)


# What of sanitizer_sees.cu the tools report; by_sanitizer: nothing.
SEES = (("racecheck", "elected", by_blindness), ("racecheck", "every", by_sanitizer), ("synccheck", "places", by_blindness),
        ("synccheck", "unaligned", by_sanitizer))


def watch(tool, name, label, words, count):
    if tool:
        return Command(label, [tool, "--tool", name, "--error-exitcode", "9", *words], count)
    return Command(label, ["sh", "-c", "echo compute-sanitizer, or what it is to watch, is not there; exit 77"], by_status)


# ---- the parts


def operations():
    yield Command("operations", [BIN / "cuda_runner", HERE / "cases"], by_last_line)


def smoke():
    for row in (HERE / "smoke/rows").read_text().splitlines():
        yield Command(row.split()[0], [BIN / "cuda_smoke", *row.split()], by_last_line)


def scripts():
    examples = TREE / "tests/front/examples"
    for script in sorted(examples.glob("*.attn")):
        if script.stem != "groups" and not RECURRENT.search(script.read_text()):
            yield Command(script.stem, [BIN / "scripts_test", "cuda:0", examples, "turns", script.name], by_last_line)
    for name in HARD:
        yield Command(name, [BIN / "scripts_test", "cuda:0", examples, "turns", f"/{name}.attn"], by_last_line)


def recurrences():
    """A command a script: which cases name it is told in linear_test.c. Then all of them by the matrix units of warps."""
    folder, examples = TREE / "tests/exec/linear", TREE / "tests/front/examples"
    for script in sorted([*folder.glob("*.attn"), *(s for s in examples.glob("*.attn") if RECURRENT.search(s.read_text()))]):
        yield Command(script.stem, [BIN / "linear_test", "cuda:0", folder, script.name], by_last_line)
    for way in (*(f"forward {n}/6" for n in range(1, 7)), *(f"backward {n}/12" for n in range(1, 13)), "two"):
        name = "by warps, " + way.replace("/", " of ")
        yield Command(name, [BIN / "linear_test", "cuda:0", folder, *way.split()], by_last_line)


def sums():
    for name in SUMS:
        words = [BIN / "sums_test", "cuda:0", TREE / "tests/front/examples", "1", f"{name}.attn"]
        yield Command(name.strip("/"), words, by_last_line)


def check():
    for script in sorted((TREE / "attn_scripts").glob("*.attn")):
        yield Command(script.stem, [BIN / "aule", "check", script, "--backend", "cuda:0"], by_status)


def demo():
    words = [BIN / "demo", "--scripts", TREE / "demo", "--data", TREE / "tests/data"]
    yield Command("demo", words, lambda status, said: by_status(status or not demo_ran("cuda:0", said), said))


def checked():
    yield Command("checked", [sys.executable, "checked_test.py", BIN / "aulec", BIN / "aule"], by_unittest, TREE / "tests/driver")


def tests(*names, only=()):
    label = " ".join([names[0], *only])
    chosen = [word for pattern in only for word in ("-k", pattern)]
    return Command(label, [sys.executable, "run.py", "-v", *chosen, *("test_" + name for name in names)], by_unittest, TREE / "tests/python")


def tables(rounds, seed):
    """Lists of calls over layouts, of random bytes."""
    return [BIN / "tables_fuzz", rounds, seed, TREE / "tests/fuzz/words-arrays.txt", TREE / "tests/fuzz/corpus/tables"]


def python():
    for name in ("device.Compiled", "device.Torch", "device.Arrays", "device.Checked", "training.Gradients", "training.Scripts",
                 "training.Sessions", "transformers", "varlen.Cuda", "decode.Decode.test_torch", "serving.Attention.test_torch", "vllm.Steps"):
        yield tests(name)


def serving():
    """Arrays that are copied to the GPU, as OpenCL devices have them, and tensors that lie there."""
    for name in ("append.Append.test_devices", "append.Append.test_devices_scales_of_tokens", "append.Append.test_slots", "append.Append.test_wrong_lists",
                 "append.Append.test_modified", "beside.Beside.test_devices", "beside.PaddedQueries.test_devices", "storage.Storage.test_devices",
                 "layout_gradients.Gradients.test_devices", "padded_gradients", "parts.Layouts", "varlen.Varlen.test_devices", "decode", "again", "serving", "serve.Graphs", "vllm"):
        yield tests(name)
    for last in range(10):  # of the numbers of the design's rows
        yield tests("covering", only=[f"*Covering.test_??{last}_*"])
    yield tests("hard")
    yield Command("random tables", tables("20000", "1"), by_status)


def memory():
    yield tests("device.Far")
    yield tests("device.Errors")


def sanitizer():
    tool = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    rows = {row.split()[0]: row.split() for row in (HERE / "smoke/rows").read_text().splitlines()}
    for name in SANITIZERS:
        for so, shape in WATCHED.items():
            if so not in rows:  # of another architecture
                continue
            made = so.replace(".so", "-watched.so")
            form = made if name in FOLLOWING and (HERE / made).exists() else so
            yield watch(tool, name, f"{name} {so}", [BIN / "cuda_smoke", form, "--shape", shape, *rows[so][3:]], by_sanitizer)
        yield watch(tool, name, f"{name} smoke/served.so", [BIN / "aule", "bench", "--serve", HERE / "smoke/served.so", "--backend", "cuda:0", *SERVED], by_sanitizer)
    yield watch(tool, "memcheck", "memcheck random tables", tables("200", "2"), by_sanitizer)
    for name, what, count in SEES:
        there = tool if (BIN / "sanitizer_sees").exists() else None
        yield watch(there, name, f"{name} sees {what}", [BIN / "sanitizer_sees", what], count)


PARTS = {
    "smoke": Part("artifacts: streams, graphs, threads, beside cpu", 60, smoke),
    "operations": Part("single operations of the kernel IR, bit by bit", 90, operations),
    "scripts": Part("examples against the oracle: types in turns, forward and backward, hard shapes, repeats", 300, scripts),
    "recurrences": Part("recurrences against the oracle: states, packed sequences, gradients, hard gates", 240, recurrences),
    "sums": Part("long sums and gradients that all pairs add to, beside formulas whose sums are exact", 240, sums),
    "checked": Part("--checked: indices that leave their tensors are found and named", 90, checked),
    "memory": Part("rows and heads beyond 2^32 bytes, errors and what is left after them", 90, memory),
    "check": Part("aule check of attn_scripts: forward, gradients, laws", 120, check),
    "python": Part("Python: torch, autograd, torch.compile, graphs, threads, arrays, checked kernels, models", 240, python),
    "serving": Part("caches: new rows, layouts, storage, aule.decode, aule.vllm; a covering design of all of it", 240, serving),
    "sanitizer": Part("compute-sanitizer's four tools on a few blocks; lists of random bytes", 120, sanitizer),
    "demo": Part("the demo on every device, beside what models computed", 60, demo),
}


# ---- running


def environment():
    here = dict(os.environ)
    here["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(HERE / "lib"), here.get("LD_LIBRARY_PATH")]))
    here.update(AULE_LIBRARY_PATH=str(HERE / "lib"), PYTHONPATH=str(TREE / "python"), PYTHONDONTWRITEBYTECODE="1", AULE_TEST_DEVICE="cuda",
                XDG_CACHE_HOME=str(HERE / "cache"), AULE_FUZZ_ARTIFACT=str(HERE / "smoke/tables.so"), AULE_FUZZ_DEVICE="cuda:0")
    return here


def run(part, command, log, end):
    """What a command counts, what it said, and its seconds."""
    words, begin = [str(word) for word in command.words], time.monotonic()
    limit = min(part.limit, end - begin)
    try:
        if limit <= 0:
            raise OSError("no time was left for it")
        done = subprocess.run(words, cwd=command.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=limit)
        said, counts = done.stdout, command.count(done.returncode, done.stdout)
    except subprocess.TimeoutExpired as error:
        said, counts = (error.stdout or b"").decode(errors="replace") + f"\nit did not end within {limit:.0f} s\n", Counts(failed=1)
    except OSError as error:
        said, counts = f"{error}\n", Counts(failed=1)
    if counts == Counts():
        said, counts = said + "nothing ran\n", Counts(failed=1)
    seconds = time.monotonic() - begin
    (log / (re.sub(r"\W+", "-", command.label) + ".log")).write_text(f"{' '.join(words)}\n{said}{seconds:.1f} s\n")
    return counts, said, seconds


def start(pool, name, part, end):
    """The commands of a part, and what will come of each."""
    log = HERE / "logs" / name
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir(parents=True)
    return [(command, pool.submit(run, part, command, log, end)) for command in part.commands()]


def tell(name, part, started):
    total, seconds, failures = Counts(), 0, []
    for command, result in started:
        counts, said, took = result.result()
        total, seconds = total + counts, seconds + took
        if counts.failed:
            failures.append((command.label, said))
    print(f"{name}: {total.passed} passed, {total.failed} failed, {total.skipped} skipped; {seconds:.0f} s of work ({part.what})", flush=True)
    for label, said in failures:
        print(f"    {label}:")
        for line in said.rstrip().splitlines()[-TAIL:]:
            print(f"        {line[:300]}")
    return total


def device():
    """The first device as `aule devices` shows it, and why there is none."""
    try:
        said = subprocess.run([BIN / "aule", "devices"], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    except OSError as error:
        return "", str(error)
    found = re.search(r"^cuda:0 +(.*(?:\n .*)?)", said, re.M)
    missing = re.search(r"^cuda +(.*)", said, re.M)
    return (" ".join(found.group(1).split()) if found else ""), (missing.group(1) if missing else said)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, metavar="N", help="commands beside each other")
    parser.add_argument("--within", type=int, default=360, metavar="SECONDS", help="what has not ended then has failed")
    parser.add_argument("--list", action="store_true", help="the parts, and what they are for")
    arguments = parser.parse_args()
    if arguments.list:
        for name, part in PARTS.items():
            print(f"{name:12} {part.what}")
        return 0
    here, why = device()
    print(f"on {here}" if here else f"there is no CUDA device: {why}", flush=True)
    if not here:
        print("0 passed, 1 failed")
        return 1
    begin, total = time.monotonic(), Counts()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        started = {name: start(pool, name, PARTS[name], begin + arguments.within) for name in arguments.parts or PARTS}
        for name, commands in started.items():
            total += tell(name, PARTS[name], commands)
    print(f"{time.monotonic() - begin:.0f} s, {total.skipped} skipped" + (" for what is missing here (logs say what)" if total.skipped else ""))
    print(f"{total.passed} passed, {total.failed} failed")
    return total.failed != 0


if __name__ == "__main__":
    sys.exit(main())
