"""Mistakes that are planted in a source file, which a test must find."""
import sys


def all_stand(mistakes, source):
    """Does every file have its mistakes' texts once? It costs nothing, where trying them takes minutes: who changes the file is told at once."""
    for what, file, text, _ in mistakes:
        count = (source / file).read_text().count(text)
        if count != 1:
            sys.exit(f"{what}: {file} has the text {count} times:\n{text}")


def try_all(mistakes, source, fails):
    """Exits: 0 if every mistake is found.

    mistakes: what it is, the file below [source], a text that stands there once, what stands there instead.
    fails: does the test fail where that file has this text? (None, None): as it is.
    """
    if fails(None, None):
        sys.exit("the test fails as it is")
    all_stand(mistakes, source)
    missed = 0
    for what, file, text, instead in mistakes:
        before = (source / file).read_text()
        found = fails(file, before.replace(text, instead))
        print(("found      " if found else "NOT FOUND  ") + what, flush=True)
        missed += not found
    print(f"{len(mistakes) - missed} of {len(mistakes)} found")
    sys.exit(1 if missed else 0)
