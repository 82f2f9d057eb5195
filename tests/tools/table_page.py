"""A table in a document that a test compares and its --write makes anew: the text between `<!-- NAME -->` and `<!-- /NAME -->`."""
import sys


class TablePage:
    """The part [name] of the file at [path], whose markers stand in lines of their own.

    Attributes:
        name: of the file.
        text: the lines between the markers.
    """

    def __init__(self, path, name):
        self._path, self.name = path, path.name
        self._head, begin, rest = path.read_text().partition(f"<!-- {name} -->\n")
        self.text, end, self._tail = rest.partition(f"\n<!-- /{name} -->")
        if not begin or not end:
            sys.exit(f"{path} has no part {name}")
        self._head, self._tail = self._head + begin, end + self._tail

    def write(self, text):
        self.text = text
        self._path.write_text(self._head + text + self._tail)


def judge(page, table, written, worse, better, arguments, tool):
    """Ends the program: fails over rows of [table] that are worse than the page says, and over better ones until they are written down. --write
    does that, but not while something is worse, unless --grown says that it may.

    Args:
        written: makes the table's text.
        worse, better: lines that say what.
        tool: the command that has --write.
    """
    for line in worse:
        print("worse:", line)
    if arguments.write and (arguments.grown or not worse):
        page.write(written(table))
        better, worse = [], []
    for line in better:
        print(f"better, to be written down ({tool}):", line)
    print(f"{len(table)} kernels, {len(worse)} worse than {page.name} says, {len(better)} better")
    sys.exit(1 if worse or better else 0)
