#!/usr/bin/env python3
"""Rules of ours for SPIR-V modules, beside SPIRV-Tools' validator, which lets wrong barriers and undeclared needs of old versions pass.

    spirv_rules.py [--validator spirv-val] MODULE...   files with modules one behind the other
    spirv_rules.py --program SPIRV_TEST [COUNT SEED] the golden and random kernels, which that test writes into a folder
    spirv_rules.py --scripts AULEC SCRIPT...           of what aulec makes of scripts, every operand type
        --arch NAME before the first script: for that architecture, or several with commas
        --newer SCRIPT before one of these: SCRIPT spirv-val is a validator that knows cooperative matrices, where SCRIPT is there
    spirv_rules.py --self-test                         that wrong modules are found
"""
import shutil, struct, subprocess, sys, tempfile
from pathlib import Path

MAGIC = 0x07230203
INT64, INT16, INT8, BITS16, BITS8 = 11, 22, 39, 4433, 4448
BLOCK_ORDER = 0x8 | 0x2000 | 0x4000 | 0x100  # AcquireRelease, MakeAvailable, MakeVisible, WorkgroupMemory
ORDER = 0x8 | 0x40 | 0x2000 | 0x4000  # AcquireRelease, UniformMemory, MakeAvailable, MakeVisible
WORKGROUP_MEMORY = 0x100
WORKGROUP, FUNCTION, FAR = 4, 7, 5349
NO_CONTRACTION, FMA, QUEUE_FAMILY = 42, 50, 5
FLOAT16, SUBGROUPS, VOTE, SHUFFLE, MATRICES = 9, 61, 62, 65, 6022
LAID_OUT, LAID_OUT_8, LAID_OUT_16, REDUCES, CONVERTS, BY_ELEMENT, ADDS_FLOATS = 4428, 4429, 4430, 5430, 5431, 5432, 6033
FROM_TENSORS, TENSORS = 5433, 5439
BRAIN, BRAIN_MATRICES, ROUND_MODE = 5116, 5118, 4462
KERNEL, CROSS_WORKGROUP, DEVICE, CONTRACTION_OFF = 6, 5, 1, 31
LINKAGE, VECTOR16, GROUPS, SUBGROUP_SIZES, SHUFFLE_INTEL = 5, 7, 18, 58, 5568
SEQUENTIAL, FAR_MEMORY = 0x10, 0x200
BLOCK_IO = {6231: 6228, 6232: 6229, 6233: 6230, 6234: 6228}  # what blocks are loaded by, and its capability
KERNEL_ORDER = SEQUENTIAL | FAR_MEMORY  # CrossWorkgroupMemory


def modules(data):
    """The modules of a file, each a list of instructions (operation, words behind the first)."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    found, at = [], 0
    while at < len(words):
        if words[at] != MAGIC:
            raise ValueError("no magic number")
        begin, at, instructions = at, at + 5, []
        while at < len(words) and words[at] != MAGIC:
            count = words[at] >> 16
            if not count or at + count > len(words):
                raise ValueError("an instruction ends outside")
            instructions.append((words[at] & 0xFFFF, words[at + 1:at + count]))
            at += count
        found.append((struct.pack(f"<{at - begin}I", *words[begin:at]), instructions))
    return found


def is_kernel(instructions):
    """Whether it is for OpenCL and Level Zero; else for Vulkan."""
    return any(op == 17 and words[0] == KERNEL for op, words in instructions)


def kernel_faults(instructions):
    """What is wrong with a module of flavour Kernel by our rules."""
    constants = {words[1]: words[2] for op, words in instructions if op == 43}
    pointers = {words[0]: words[1:] for op, words in instructions if op == 32}
    functions = {words[1] for op, words in instructions if op == 54}
    entries = [words[1] for op, words in instructions if op == 15]
    capabilities = {words[0] for op, words in instructions if op == 17}
    needed = {KERNEL, 4} | {{64: INT64, 16: INT16, 8: INT8}[words[1]] for op, words in instructions if op == 21 and words[1] != 32}
    needed |= {FLOAT16 for op, words in instructions if op == 22 and words[1] == 16} | {BLOCK_IO[op] for op, _ in instructions if op in BLOCK_IO}
    declared = [struct.pack(f"<{len(words)}I", *words).rstrip(b"\0") for op, words in instructions if op == 10]
    if any(op in BLOCK_IO for op, _ in instructions) != (b"SPV_INTEL_2d_block_io" in declared):
        yield "the extension of blocks is declared and not needed, or needed and not declared"
    kinds, inside, places = {}, None, set()
    roots, read, written, weaker = {}, set(), set(), False
    operations = {262: GROUPS, 5571: SHUFFLE_INTEL, 5574: SHUFFLE_INTEL}
    subgroups = any(op == 16 and words[1] == 35 for op, words in instructions)
    for op, words in instructions:
        if op in operations:
            needed.add(operations[op])
            if not subgroups:
                yield "lanes exchange values, and no mode says how many there are"
        if op == 16 and words[1] == 35:
            needed.add(SUBGROUP_SIZES)
        if op == 23 and words[2] > 4:
            needed.add(VECTOR16)
        if op == 71 and words[1] == 41:
            needed.add(LINKAGE)
        if op == 54:
            inside = words[1]
        if len(words) > 1 and words[0] in pointers and op not in (32, 43):
            kinds[words[1]] = pointers[words[0]][0]
        if op == 54:
            roots, read, written, weaker = {}, set(), set(), False  # of a function: parameters that pointers come from
        if op == 55:
            roots[words[1]] = words[1]
        if op in (65, 66, 67, 70, 83, 124) and words[2] in roots:
            roots[words[1]] = roots[words[2]]
        if op == 61:
            read.add(roots.get(words[2]))
        if op == 62:
            written.add(roots.get(words[0]))
        if op == 56 and weaker and (read & written) - {None}:
            yield "barriers of a kernel do not order what it writes and reads"
        if op == 55 and inside in entries and words[0] in pointers and pointers[words[0]][0] != CROSS_WORKGROUP:
            yield f"parameter %{words[1]} of a kernel points to no global memory"
        if op == 57 and words[2] in entries:
            yield "a kernel is called"
        if op == 224:
            scopes = constants[words[0]], constants[words[1]]
            if scopes != (2, 2) and not (scopes == (3, 3) and subgroups):
                yield "a barrier that is not the block's"
            if constants[words[2]] not in (SEQUENTIAL | WORKGROUP_MEMORY, KERNEL_ORDER | WORKGROUP_MEMORY):
                yield "a barrier that does not order shared memory"
            weaker = weaker or not constants[words[2]] & FAR_MEMORY
        if op == 225 and (constants[words[0]] != DEVICE or constants[words[1]] != KERNEL_ORDER):
            yield "a fence that does not order memory between blocks"
        if op in (230, 234) and constants[words[3]] != DEVICE:
            yield "an atomic operation that other blocks may not see"
        if op in (61, 62):
            place = words[2] if op == 61 else words[0]
            mask = words[3:] if op == 61 else words[2:]
            if kinds.get(place) == CROSS_WORKGROUP and not (mask and mask[0] & 2):
                yield f"an access to %{place} that says no alignment"
        if op == 71 and words[1] == 11:
            if words[2] in places:
                yield f"two variables of the built-in {words[2]}: Intel's compiler knows one"
            places.add(words[2])
        if op == 71 and words[1] == NO_CONTRACTION:
            yield "a decoration of Vulkan's"
    if SHUFFLE_INTEL in needed and not any(op == 10 for op, _ in instructions):
        yield "an extension that is not declared"
    if not functions.issuperset(entries):
        yield "an entry point that is no function"
    for missing in sorted(needed - capabilities):
        yield f"capability {missing} is needed and not declared"
    for idle in sorted(capabilities - needed):
        yield f"capability {idle} is declared and not needed"
    modes = [words[1] for op, words in instructions if op == 16]
    for mode in (17, CONTRACTION_OFF, *([35] if subgroups else [])):
        if modes.count(mode) != len(entries):
            yield f"execution mode {mode} is not that of every kernel"


def faults(instructions):
    """What is wrong with a module by our rules."""
    return kernel_faults(instructions) if is_kernel(instructions) else shader_faults(instructions)


def shader_faults(instructions):
    """What is wrong with a module of flavour Shader by our rules."""
    capabilities = {words[0] for op, words in instructions if op == 17}
    constants = {words[1]: words[2] for op, words in instructions if op == 43}
    ints = {words[0]: words[1] for op, words in instructions if op == 21}
    floats = {words[0] for op, words in instructions if op == 22}
    halves = set()
    vectors = {words[0]: words[1] for op, words in instructions if op == 23}
    arrays = {words[0]: words[1] for op, words in instructions if op == 28}
    exact = {words[0] for op, words in instructions if op == 71 and words[1] == NO_CONTRACTION}
    pointers = {words[0]: words[1:] for op, words in instructions if op == 32}
    storage = {}
    needed = {1, 5347, 5345, 4466, 4467}
    operations = {335: {SUBGROUPS, VOTE}, 345: {SUBGROUPS, SHUFFLE}, 346: {SUBGROUPS, SHUFFLE}, 4456: {MATRICES},
                  5366: {REDUCES}, 5369: {BY_ELEMENT}, 5367: {FROM_TENSORS}, 5370: {TENSORS}, 5371: {TENSORS}, 5293: {CONVERTS}, 6035: {ADDS_FLOATS}}
    laid_out = LAID_OUT in capabilities
    uses, kinds = {}, {}  # of types of matrices; types of values
    for op, words in instructions:
        needed |= operations.get(op, set())
        if op == 22 and words[1] == 16:
            halves.add(words[0])
            needed |= {BRAIN, BRAIN_MATRICES} if len(words) > 2 else {FLOAT16}
        if op == 4456:
            uses[words[0]] = constants[words[5]] if words[5] in constants else None
        if op in (61, 115, 4457, 4459, 5366, 5367, 5369) and words[0] in uses:
            kinds[words[1]] = uses[words[0]]
        if op == 115 and words[2] in kinds and kinds[words[1]] != kinds[words[2]]:
            needed.add(CONVERTS)
        if op == 71 and words[1] == 11 and words[2] in (40, 41):
            needed.add(SUBGROUPS)
        if op == 4456:
            floats.add(words[0])
        if op in (4457, 4458):
            place, mask = (words[2], words[5:]) if op == 4457 else (words[0], words[4:])
            if storage.get(place) == WORKGROUP and not (mask and mask[0] & 0x20):
                yield f"a matrix in shared memory at %{place} that others need not see"
        if op == 5367 and words[5:7] != (2, 16) and words[5:7] != [2, 16]:
            yield f"a matrix from a tensor at %{words[2]} that is not said to be aligned to 16 bytes"
        if op == 5370 and constants.get(words[2]) != 1:
            yield "a tensor layout whose outside is no constant"
        if op == 32:
            inner = words[2]
            while inner in vectors or inner in arrays:
                inner = vectors.get(inner) or arrays.get(inner)
            bits = ints.get(inner, 32)
            if words[1] == FAR and inner in halves:
                needed.add(BITS16)
            if words[1] == FAR and bits in (8, 16):
                needed.add(BITS16 if bits == 16 else BITS8)
            if words[1] == WORKGROUP and laid_out:
                needed |= {LAID_OUT} | ({LAID_OUT_16 if bits == 16 else LAID_OUT_8} if bits in (8, 16) else set())
            elif words[1] in (WORKGROUP, FUNCTION) and bits in (8, 16):
                needed.add(INT16 if bits == 16 else INT8)
        if op == 21 and words[1] == 64:
            needed.add(INT64)
        if op == 23 and ints.get(words[1], 32) in (8, 16):
            needed.add(INT16 if ints[words[1]] == 16 else INT8)
        if op == 224:  # ControlBarrier
            scopes = constants[words[0]], constants[words[1]]
            if scopes != (2, 2) and not (scopes == (3, 3) and SUBGROUPS in capabilities):
                yield "a barrier that is not the block's"
            if constants[words[2]] not in (BLOCK_ORDER, ORDER | WORKGROUP_MEMORY):
                yield "a barrier that does not order shared memory"
        if op == 225 and (constants[words[0]] != QUEUE_FAMILY or constants[words[1]] & ORDER != ORDER):
            yield "a fence that does not order memory between blocks"
        if op in (129, 131, 133, 136) and words[0] in floats and words[1] not in exact:
            yield f"%{words[1]} may be contracted"
        if op == 12 and words[3] == FMA and words[1] not in exact:
            yield f"%{words[1]}, an fma, may be contracted"
        if op == 59:
            storage[words[1]] = words[2]
        if op in (61, 62):  # Load, Store: of what?
            place = words[2] if op == 61 else words[0]
            mask = words[3:] if op == 61 else words[2:]
            kind = storage.get(place)
            if kind == FAR and not (mask and mask[0] & 2):
                yield f"an access to %{place} that says no alignment"
            if kind == WORKGROUP and not (mask and mask[0] & 0x20):
                yield f"an access to shared memory at %{place} that others need not see"
        elif op in (65, 120) and words[0] in pointers:
            storage[words[1]] = pointers[words[0]][0]
    if MATRICES in needed and not any(op == 10 for op, _ in instructions):
        yield "an extension that is not declared"
    if laid_out:  # tensors of 16 bits may be seen by words alone
        needed |= capabilities & {BITS16}
    for missing in sorted(needed - capabilities):
        yield f"capability {missing} is needed and not declared"
    for idle in sorted(capabilities - needed):
        yield f"capability {idle} is declared and not needed"
    modes = [(words[1], words[2] if words[1] == ROUND_MODE else 0) for op, words in instructions if op == 16]
    entries = sum(op == 15 for op, _ in instructions)
    asked = [(17, 0), (4461, 0), (ROUND_MODE, 32)]
    asked += [(ROUND_MODE, 16)] if BY_ELEMENT in capabilities or any(op == 4460 for op, _ in instructions) else []
    for mode, bits in asked:
        if modes.count((mode, bits)) != entries:
            yield f"execution mode {mode} is not that of every kernel"


def known(module, instructions):
    """The module as validators know it that do not know bf16 yet: its matrices are of f16."""
    if not any(op == 17 and words[0] == BRAIN for op, words in instructions):
        return module
    words = list(struct.unpack("<5I", module[:20]))
    for op, operands in instructions:
        if op == 17 and operands[0] in (BRAIN, BRAIN_MATRICES):
            operands = (FLOAT16,) if operands[0] == BRAIN else None
        if op == 10 and struct.pack(f"<{len(operands)}I", *operands).startswith(b"SPV_KHR_bfloat16"):
            operands = None
        if op == 22 and len(operands) > 2:
            operands = operands[:2]
        if operands is not None:
            words += [(len(operands) + 1) << 16 | op, *operands]
    return struct.pack(f"<{len(words)}I", *words)


def environments_of(module, instructions):
    if is_kernel(instructions) and any(op == 17 and words[0] == FLOAT16 for op, words in instructions):
        return ("spv1.1",)  # no OpenCL environment of validators lets it pass, whatever devices list
    if is_kernel(instructions):
        return ("opencl2.1", "opencl2.2") if struct.unpack("<2I", module[:8])[1] == 0x10000 else ("opencl2.2",)
    old = struct.unpack("<2I", module[:8])[1] <= 0x10500
    return ("vulkan1.2", "vulkan1.3") if old else ("vulkan1.3",)


def validated(validator, module, environments):
    """The validator's complaints, of the environments that modules are for."""
    with tempfile.NamedTemporaryFile(suffix=".spv") as file:
        file.write(module)
        file.flush()
        for environment in environments:
            done = subprocess.run([*validator, "--target-env", environment, file.name], capture_output=True, text=True)
            if done.returncode:
                yield f"{environment}: {(done.stderr + done.stdout).strip()}"


def and_back(validator, module):
    """What is not the same after SPIRV-Tools have printed the module and read the text: words that no instruction needs, forms that they know otherwise."""
    *runner, tool = validator
    tools = [Path(tool).with_name(name) for name in ("spirv-dis", "spirv-as")]
    if not all(tool.exists() for tool in tools):
        return
    version = struct.unpack("<2I", module[:8])[1]
    with tempfile.TemporaryDirectory() as folder:
        given, text, back = (Path(folder) / name for name in ("given.spv", "text", "back.spv"))
        given.write_bytes(module)
        for command in ([tools[0], "--raw-id", given, "-o", text],
                        [tools[1], "--preserve-numeric-ids", "--target-env", f"spv{version >> 16}.{version >> 8 & 255}", text, "-o", back]):
            done = subprocess.run([*runner, *command], capture_output=True, text=True)
            if done.returncode:
                yield f"{Path(command[0]).name}: {(done.stderr + done.stdout).strip()}"
                return
        if given.read_bytes()[20:] != back.read_bytes()[20:]:  # the heads name who made it
            yield "SPIRV-Tools read another module from the text than they printed"


def check(name, data, validator, back=False):
    wrong = 0
    found = modules(data)
    for n, (module, instructions) in enumerate(found):
        environments = environments_of(module, instructions)
        found_by = [*faults(instructions), *(validated(validator, known(module, instructions), environments) if validator else ())]
        for fault in [*found_by, *(and_back(validator, known(module, instructions)) if validator and back else ())]:
            print(f"{name}, module {n}: {fault}")
            wrong += 1
    return len(found), wrong


def of_scripts(aulec, scripts, validator):
    count = wrong = 0
    own = []
    if scripts[0] == "--arch":
        own = [f"--arch={scripts[1]}", "--dtype=bf16" if scripts[1].endswith("bf16") else "--dtype=f16"]
        scripts = scripts[2:]
    for script in scripts:
        done = subprocess.run([aulec, script, "--emit=spirv", "--width=D=32", *own, "-o", "-"], capture_output=True)
        if done.returncode:
            done = subprocess.run([aulec, script, "--emit=spirv", *own, "-o", "-"], capture_output=True)
        if done.returncode:
            print(f"{script}: {done.stderr.decode()}")
            wrong += 1
            continue
        made, bad = check(Path(script).name, done.stdout, validator)
        count, wrong = count + made, wrong + bad
    return count, wrong


def of_program(program, numbers, validator):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder, *numbers], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = [check(path.name, path.read_bytes(), validator, back=True) for path in sorted(Path(folder).iterdir())]
    return sum(made for made, _ in done), sum(bad for _, bad in done)


def self_test():
    """Each rule by a module that breaks it."""
    header = [MAGIC, 0x10500, 0, 100, 0]
    ins = lambda op, *words: [(len(words) + 1) << 16 | op, *words]
    caps = [word for c in (1, 5347, 5345, 4466, 4467) for word in ins(17, c)]
    cases = {
        "does not order shared": ins(21, 1, 32, 0) + ins(43, 1, 2, 2) + ins(43, 1, 3, 0x108) + ins(224, 2, 2, 3),
        "may be contracted": ins(22, 4, 32) + ins(129, 4, 5, 6, 7),
        "capability 11 is needed": ins(21, 8, 64, 0),
        "capability 22 is needed": ins(21, 8, 16, 0) + ins(32, 9, WORKGROUP, 8),
        "capability 22 is needed and": ins(21, 8, 16, 0) + ins(23, 9, 8, 4),
        "others need not see": ins(21, 1, 32, 0) + ins(32, 9, WORKGROUP, 1) + ins(59, 9, 10, WORKGROUP) + ins(61, 1, 11, 10),
        "says no alignment": ins(21, 1, 32, 0) + ins(32, 9, FAR, 1) + ins(120, 9, 10, 12) + ins(62, 10, 11),
        "execution mode 4462": ins(15, 5, 1, 0) + ins(16, 1, 17, 1, 1, 1) + ins(16, 1, 4461, 32),
        "capability 39 is declared": ins(17, 39),
        "capability 9 is needed": ins(22, 4, 16),
        "capability 61 is needed": ins(71, 5, 11, 40),
        "capability 62 is needed": ins(335, 1, 5, 2, 3),
        "capability 65 is needed": ins(346, 1, 5, 2, 3, 4),
        "extension that is not declared": ins(4456, 4, 1, 2, 2, 2, 2),
        "%6 may be contracted": ins(4456, 4, 1, 2, 2, 2, 2) + ins(131, 4, 6, 7, 8),
        "not the block's": ins(21, 1, 32, 0) + ins(43, 1, 2, 3) + ins(43, 1, 3, 0x6148) + ins(224, 2, 2, 3),
        "capability 6033 is needed": ins(6035, 4, 5, 6, 7, 7, 8),
        "capability 5430 is needed": ins(5366, 4, 5, 6, 1, 7),
        "capability 5432 is needed": ins(5369, 4, 5, 6, 7),
        "capability 5433 is needed": ins(5367, 4, 6, 7, 8, 9, 2, 16, 0),
        "capability 5439 is needed": ins(5372, 4, 5) + ins(5370, 4, 2, 3),
        "not said to be aligned to 16": ins(5367, 4, 6, 7, 8, 9, 2, 2, 0),
        "outside is no constant": ins(21, 1, 32, 0) + ins(43, 1, 2, 2) + ins(43, 1, 3, 2) + ins(5370, 4, 2, 3),
        "capability 5431 is needed": ins(43, 1, 2, 2) + ins(43, 1, 3, 0) + ins(4456, 4, 9, 2, 2, 2, 2) + ins(4456, 5, 9, 2, 2, 2, 3)
        + ins(61, 4, 6, 7) + ins(115, 5, 8, 6),
        "capability 5116 is needed": ins(22, 4, 16, 0),
        "capability 4430 is needed": ins(17, LAID_OUT) + ins(21, 8, 16, 0) + ins(32, 9, WORKGROUP, 8),
        "execution mode 4462 is": ins(15, 5, 1, 0) + ins(16, 1, 4462, 32) + ins(17, BY_ELEMENT),
        "mode 4462 is": ins(15, 5, 1, 0) + ins(16, 1, 4462, 32) + ins(4460, 5, 6, 4),
        "a matrix in shared": ins(32, 9, WORKGROUP, 1) + ins(65, 9, 10, 12, 13) + ins(4457, 4, 6, 10, 2, 3),
    }
    for expected, words in cases.items():
        data = struct.pack(f"<{len(header + caps + words)}I", *header, *caps, *words)
        found = list(faults(modules(data)[0][1]))
        assert any(expected in fault for fault in found), (expected, found)
    kernel_caps = [word for c in (KERNEL, 4) for word in ins(17, c)]
    of_kernels = {
        "does not order shared": ins(21, 1, 32, 0) + ins(43, 1, 2, 2) + ins(43, 1, 3, 0x210) + ins(224, 2, 2, 3),
        "do not order what it writes and reads": ins(21, 1, 32, 0) + ins(43, 1, 2, 2) + ins(43, 1, 3, 0x110) + ins(54, 9, 4, 0, 9) + ins(55, 9, 5)
            + ins(70, 9, 6, 5, 2) + ins(61, 1, 7, 6, 2, 4) + ins(224, 2, 2, 3) + ins(62, 6, 7, 2, 4) + ins(56),
        "not the block's": ins(21, 1, 32, 0) + ins(43, 1, 2, 1) + ins(43, 1, 3, 0x310) + ins(224, 2, 2, 3),
        "between blocks": ins(21, 1, 32, 0) + ins(43, 1, 2, 2) + ins(43, 1, 3, 0x210) + ins(225, 2, 3),
        "may not see": ins(21, 1, 32, 0) + ins(43, 1, 2, 2) + ins(234, 1, 5, 6, 2, 2, 2),
        "says no alignment": ins(21, 1, 32, 0) + ins(32, 9, CROSS_WORKGROUP, 1) + ins(70, 9, 10, 12, 13) + ins(62, 10, 11),
        "points to no global": ins(32, 9, 7, 1) + ins(15, 6, 5, 0) + ins(54, 4, 5, 0, 3) + ins(55, 9, 6),
        "is called": ins(15, 6, 5, 0) + ins(54, 4, 5, 0, 3) + ins(57, 4, 6, 5),
        "two variables": ins(71, 5, 11, 26) + ins(71, 6, 11, 26),
        "of Vulkan's": ins(71, 5, NO_CONTRACTION),
        "capability 22 is needed": ins(21, 8, 16, 0),
        "capability 11 is declared": ins(17, INT64),
        "capability 18 is needed": ins(262, 1, 5, 2, 3),
        "no mode says": ins(5571, 1, 5, 2, 3),
        "extension that is not declared": ins(5574, 1, 5, 2, 3),
        "capability 58 is needed": ins(16, 1, 35, 16),
        "capability 7 is needed": ins(23, 9, 8, 8),
        "capability 5 is needed": ins(71, 5, 41, 0x66, 1),
        "execution mode 35": ins(15, 6, 1, 0) + ins(54, 4, 1, 0, 3) + ins(54, 4, 2, 0, 3) + ins(15, 6, 2, 0) + ins(16, 1, 35, 16),
        "execution mode 31": ins(15, 6, 1, 0) + ins(54, 4, 1, 0, 3) + ins(16, 1, 17, 1, 1, 1),
    }
    for expected, words in of_kernels.items():
        data = struct.pack(f"<{len(header + kernel_caps + words)}I", *header, *kernel_caps, *words)
        found = list(faults(modules(data)[0][1]))
        assert any(expected in fault for fault in found), (expected, found)
    tool = shutil.which("spirv-val")
    name = struct.unpack("<I", b"a\0\0\0")[0]
    for padding in (0, 0x78000000) if tool else ():  # behind the name's end
        module = [0x07230203, 0x10000, 0, 2, 0, *ins(17, KERNEL), *ins(17, 4), *ins(17, LINKAGE), *ins(14, 2, 2), *ins(5, 1, name | padding), *ins(19, 1)]
        assert bool(list(and_back([tool], struct.pack(f"<{len(module)}I", *module)))) == bool(padding), padding
    print(f"{len(cases) + len(of_kernels)} wrong modules were found")


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    newer = arguments[1] if arguments[0] == "--newer" else None
    if newer:
        arguments = arguments[2:]
    found = shutil.which("spirv-val")
    validator = [found] if found else None
    if newer:
        tool = Path(newer).parent / "root/usr/bin/spirv-val"
        validator = [newer, str(tool)] if tool.exists() else None
    if newer and not validator:
        print(f"{newer} (tests/tools/vulkan-device.sh) is not there: modules are checked by our rules alone")
    elif not validator:
        print("spirv-val (package spirv-tools) is not installed: modules are checked by our rules alone")
    if arguments[0] == "--scripts":
        count, wrong = of_scripts(arguments[1], arguments[2:], validator)
    elif arguments[0] == "--program":
        count, wrong = of_program(arguments[1], arguments[2:], validator)
    else:
        count = wrong = 0
        for path in arguments:
            made, bad = check(path, Path(path).read_bytes(), validator)
            count, wrong = count + made, wrong + bad
    print(f"{count} modules, {wrong} faults")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
