"""Turns scripts into one C array: embed.py OUTPUT SCRIPT...

The array holds the scripts' bytes one after the other and a final NUL. Numbers instead of a string literal, because a
compiler need not accept literals of more than 4095 characters.
"""
import pathlib
import sys


def main():
    output, *scripts = map(pathlib.Path, sys.argv[1:])
    data = b'\n'.join(script.read_bytes() for script in scripts) + b'\0'
    rows = [', '.join(map(str, data[at:at + 24])) for at in range(0, len(data), 24)]
    output.write_text('/* Made by embed.py of ' + ', '.join(s.name for s in scripts) + '. */\n#include "std.h"\n\n'
                      'static const char source[] = {\n    ' + ',\n    '.join(rows) + '};\n\n'
                      'const char *au_std_source(void) { return source; }\n')


main()
