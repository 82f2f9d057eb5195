"""The files of `aulec`: scripts that cannot be read, outputs that cannot be written, what is left on disk. Standard library only.

    files_test.py AULEC EXAMPLES
"""
import os
import resource
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from aulec_test import aulec, Case, NARROW


class Files(Case):
    def test_a_script_that_is_not_there(self):
        self.expect(aulec(self.folder / "absent.attn"), 3, "absent.attn", "No such file")

    def test_a_folder_as_script(self):
        self.expect(aulec(self.folder), 3, "Is a directory")

    def test_what_is_no_file_is_not_read_by_its_name(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for name in (pipe, "/dev/zero", "/dev/null"):
            self.expect(aulec(name, timeout=10), 3, "a pipe or a device", "aulec - <")

    def test_an_endless_standard_input(self):
        with open("/dev/zero", "rb") as zero:
            self.expect(aulec("-", "--emit=ast", stdin=zero, timeout=20), 1, "E0113", "at most 4194304 bytes")

    def test_an_artifact_as_script(self):
        artifact = self.folder / "mha.so"
        self.expect(aulec(self.mha, *NARROW, "-o", artifact), 0)
        done = aulec(artifact)
        self.expect(done, 1, "E0114", "mha.so is an artifact")
        self.assertTrue(done.stderr.isascii() and done.stderr.decode().replace("\n", "").isprintable())

    def test_what_a_terminal_does_not_take_is_not_printed(self):
        path = self.folder / "bad.attn"
        path.write_bytes(bytes(range(256)) * 40)
        done = aulec(path)
        self.expect(done, 1, "E0102", "E0103")
        self.assertTrue(done.stderr.decode().replace("\n", "").isprintable())
        self.assertLess(len(done.stderr), 2000)

    def test_no_folder_is_needed_for_linking(self):
        for folder in ("/nowhere", "/proc"):
            self.expect(aulec(self.mha, *NARROW, "-o", self.folder / "x.so", env={**os.environ, "TMPDIR": folder}), 0)

    def test_the_output_is_readable_as_the_mask_says(self):
        for mask in (0o022, 0o077):
            self.expect(aulec(self.mha, *NARROW, "-o", self.folder / "x.so", preexec_fn=lambda mask=mask: os.umask(mask) and None), 0)
            self.assertEqual((self.folder / "x.so").stat().st_mode & 0o777, 0o666 & ~mask)
            self.assertEqual([path.name for path in self.folder.iterdir()], ["x.so"])

    @unittest.skipIf(os.getuid() == 0, "root may read everything")
    def test_a_script_that_may_not_be_read(self):
        secret = self.folder / "secret.attn"
        secret.write_text(self.mha.read_text())
        secret.chmod(0)
        self.expect(aulec(secret), 3, "Permission denied")

    def test_a_folder_as_output(self):
        target = self.folder / "folder"
        target.mkdir()
        self.expect(aulec(self.mha, *NARROW, "-o", target), 3, "cannot write", "Is a directory")
        self.assertEqual(list(self.folder.iterdir()), [target])

    def test_a_result_over_its_script(self):
        script, link = self.folder / "mine.attn", self.folder / "other.attn"
        script.write_text(self.mha.read_text())
        link.symlink_to(script)
        for output in (script, link, self.folder / "." / "mine.attn"):
            self.expect(aulec(script, *NARROW, "-o", output), 2, "would replace what it is made of")
        named = self.folder / "mine.so"  # the name that a result would have by default
        named.write_text(self.mha.read_text())
        self.expect(aulec("mine.so", *NARROW, cwd=self.folder), 2, "would replace what it is made of")
        self.assertEqual({path.read_text() for path in (script, named)}, {self.mha.read_text()})

    def test_an_output_in_a_folder_that_is_not_there(self):
        self.expect(aulec(self.mha, *NARROW, "-o", self.folder / "absent" / "x.so"), 3, "No such file")

    def old_file_stays(self, folder, *what, **options):
        target = folder / "x"
        target.write_bytes(b"what was here before")
        before = set(folder.iterdir())
        self.expect(aulec(self.mha, *what, "-o", target, **options), 3, "cannot write", "x: ")
        self.assertEqual(target.read_bytes(), b"what was here before")
        self.assertEqual(set(folder.iterdir()), before)

    def test_a_file_that_may_not_grow(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        self.old_file_stays(self.folder, "--emit=ast", preexec_fn=limit)

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True)
        if mounted.returncode:
            self.skipTest("a small disk cannot be mounted here")
        try:
            self.old_file_stays(disk, *NARROW)
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_devices_stay_devices(self):
        self.expect(aulec(self.mha, *NARROW, "-o", "/dev/null"), 0)
        self.expect(aulec(self.mha, *NARROW, "-o", "/dev/full"), 3, "No space left")
        self.assertTrue(Path("/dev/null").is_char_device() and Path("/dev/full").is_char_device())

    def test_a_full_standard_output(self):
        with open("/dev/full", "wb") as full:
            for what in ([self.mha, "--emit=ast"], ["--help"], ["--version"]):
                self.expect(aulec(*what, capture_output=False, stdout=full, stderr=subprocess.PIPE), 3, "No space left")

    def test_a_new_artifact_takes_the_place_of_the_old(self):
        target = self.folder / "x.so"
        target.write_bytes(b"old")
        self.expect(aulec(self.mha, *NARROW, "-o", target), 0)
        self.assertEqual(target.read_bytes()[:4], b"\x7fELF")

    def test_the_default_output_has_the_name_of_the_script(self):
        self.expect(aulec(self.mha, *NARROW, cwd=self.folder), 0)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["mha.so"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
