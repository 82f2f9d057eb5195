#!/usr/bin/env python3
"""Other projects: consumers_test.py BUILD TESTS/EMBED MHA.attn

Installs BUILD into a folder of its own, then builds and runs the projects of cmake/ and meson/ against what was installed, as their
users would, and a program by pkg-config alone; looks at what was installed.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD, HERE, SCRIPT = map(Path, sys.argv[1:4])


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


class Consumers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = Path(cls.folder.name)
        root = cls.at / "root"
        run("meson", "install", "--no-rebuild", "--quiet", "-C", BUILD, "--destdir", root)
        cls.prefix = next(root.rglob("bin/aulec")).parent.parent
        pkgconfig = next(root.rglob("aulec.pc")).parent
        cls.libraries = pkgconfig.parent
        cls.environment = dict(os.environ, PKG_CONFIG_PATH=str(pkgconfig), LD_LIBRARY_PATH=str(cls.libraries))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def project(self, name):
        project = self.at / name
        if (HERE / name).exists():
            shutil.copytree(HERE / name, project)
        else:
            project.mkdir()
        for source in ("static_test.cpp", "artifact_test.c", "reference.h", "sink.attn"):
            shutil.copy(HERE / source, project)
        shutil.copy(SCRIPT, project / "mha.attn")
        return project

    def run_all(self, folder, *programs):
        for program in programs:
            run(str(folder / program), env=self.environment)
        run(str(folder / "artifact"), "data", env=self.environment)

    def test_installed(self):
        for name in ("bin/aulec", "bin/aule", "include/aule/aule.h", "include/aule/aulec.h", "include/aule/artifact.h"):
            self.assertTrue((self.prefix / name).exists(), name)
        for package, wanted in (("aule", "-laule"), ("aulec", "-laulec")):
            self.assertIn(wanted, run("pkg-config", "--libs", package, env=self.environment))
            library = self.libraries / f"lib{package}.so.0"
            self.assertTrue(library.exists() and (self.libraries / f"lib{package}.a").exists(), package)
            self.assertIn(f"soname: [{library.name}]", run("readelf", "-d", library))
        self.assertIn("0.", run(self.prefix / "bin/aulec", "--version"))
        self.assertTrue(Path(run("pkg-config", "--variable=aulec", "aulec", env=self.environment).strip()).exists())

    def test_libaulec(self):
        """A program that compiles attentions, built with what was installed."""
        source = self.at / "compiles.c"
        source.write_text(
            '#include <aule/aulec.h>\n#include <string.h>\nint main(void)\n{\n'
            '    const char *text = "attention a { q: [B, H, S, D]; k: [B, H, S, D]; v: [B, H, S, D]; online softmax; }";\n'
            "    const aulec_options options = {.struct_size = sizeof options, .emit = AULEC_EMIT_ATTENTION_IR};\n"
            "    aulec_result *result = NULL;\n"
            '    const aulec_status status = aulec_compile("a", text, strlen(text), &options, &result);\n'
            "    aulec_result_free(result);\n    return status;\n}\n")
        flags = run("pkg-config", "--cflags", "--libs", "aulec", env=self.environment).split()
        run("cc", str(source), "-o", str(self.at / "compiles"), *flags)
        run(str(self.at / "compiles"), env=self.environment)

    def test_pkg_config(self):
        """A program that embeds one artifact as an archive and one as C. At run time there are no names for the linker."""
        project = self.project("pkg-config")
        aulec = run("pkg-config", "--variable=aulec", "aulec", env=self.environment).strip()
        for script, target, code, kind in (("mha", "cpu", "libmha.a", "archive"), ("sink", "opencl", "sink.c", "c")):
            for emit, name in (("header", f"{script}.h"), (kind, code)):
                run(aulec, project / f"{script}.attn", f"--emit={emit}", "-o", project / name, f"--target={target}", "--dtype=f32")
        flags = run("pkg-config", "--cflags", "--libs", "aule", env=self.environment).split()
        sources = [str(project / name) for name in ("artifact_test.c", "sink.c", "libmha.a")]
        run("cc", *sources, *flags, "-lm", "-o", str(project / "artifact"))
        links = list(self.libraries.glob("libaule*.so"))
        self.assertEqual(len(links), 3)  # libaule, libaulec, libaule_torch
        try:
            for link in links:
                link.rename(link.with_suffix(".away"))
            self.run_all(project, "artifact")
        finally:
            for link in links:
                link.with_suffix(".away").rename(link)

    @unittest.skipUnless(shutil.which("cmake"), "no cmake")
    def test_cmake(self):
        project = self.project("cmake")
        run("cmake", "-S", project, "-B", project / "b", f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DSCRIPTS={project}")
        run("cmake", "--build", project / "b")
        self.run_all(project / "b", "static_cpp", "artifact")

    def test_meson(self):
        project = self.project("meson")
        run("meson", "setup", project / "b", project, f"-Dscripts={project}", env=self.environment)
        run("meson", "compile", "-C", project / "b", env=self.environment)
        self.run_all(project / "b", "artifact")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
