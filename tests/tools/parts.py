"""Parts of unittest's cases, as tests/exec/exec.h has them of runs: AULE_TEST_PART=N/K is part K, from 0 on, of N of the cases that a
program would run; without K it is what AULE_TEST_TURN, a number of any size, leaves when divided by N, else part 0. Which part a case belongs to is drawn from its name, so that it is the same one wherever it runs.

    unittest.main(.., testLoader=PartLoader())"""

import os
import unittest
import zlib


def chosen(names: list, owner: str, part: str) -> list:
    of, _, which = part.partition("/")
    if not of.isdecimal() or int(of) < 2:
        return names
    return [name for name in names if zlib.crc32(f"{owner}.{name}".encode()) % int(of) == int(which or os.environ.get("AULE_TEST_TURN") or 0) % int(of)]


class PartLoader(unittest.TestLoader):
    def getTestCaseNames(self, testCaseClass):
        names = super().getTestCaseNames(testCaseClass)
        return chosen(names, testCaseClass.__qualname__, os.environ.get("AULE_TEST_PART", ""))
