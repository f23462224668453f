"""Build the C++ core: one source of hot code, compiled once per instruction set.

Environment variables: ``FASTMCMD_WERROR=1`` turns warnings on and into errors, ``FASTMCMD_DEBUG=1``
turns assertions on, ``FASTMCMD_SANITIZE=address,undefined`` builds with sanitizers,
``FASTMCMD_WITHOUT_LOOPS=1`` leaves out the loops over rows: the package needs them, tests/test_core.py
does not.
"""

import os
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pybind11 import get_include
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMMON_SOURCES = ["csrc/bind.cpp", "csrc/bind_loops.cpp", "csrc/dispatch.cpp"]
ISA_SOURCES = ["csrc/kernels.cpp", "csrc/loops.cpp"]
# It only converts arguments: no loop of it takes time.
OPTIMIZATION = {"csrc/bind_loops.cpp": ["-O1"]}
# Loops over rows give the same digits with every instruction set: products and sums stay apart.
EXACT_FLAGS = {"csrc/loops.cpp": ["-ffp-contract=off"]}
LOOP_SOURCES = ["csrc/bind_loops.cpp", "csrc/loops.cpp"]
# The address sanitizer finds at the access what these checks find before. GCC takes a third less time
# without. Bindings check the alignment of arrays themselves.
SANITIZER_FLAGS = ["-fno-sanitize=null,pointer-overflow,object-size"]
BINDING_SANITIZER_FLAGS = [*SANITIZER_FLAGS, "-fno-sanitize=alignment"]

# The flags name features, not processors: compilers from before 2020 know them too.
GNU_FLAGS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma", "-mbmi", "-mbmi2"],
    "avx512": [
        *("-mavx2", "-mfma", "-mbmi", "-mbmi2"),
        *("-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"),
        "-mprefer-vector-width=512",
    ],
}
GNU_X86_BASELINE = ["-msse4.2", "-mpopcnt"]
MSVC_FLAGS = {"baseline": [], "avx2": ["/arch:AVX2"], "avx512": ["/arch:AVX512"]}


def targets_x86() -> bool:
    """Return whether the compiler's target is 64-bit x86 alone."""
    flags = os.environ.get("ARCHFLAGS", "")
    if "-arch" in flags:
        return "x86_64" in flags and "arm64" not in flags
    return sysconfig.get_platform().endswith(("x86_64", "amd64"))


def runs_avx512() -> bool:
    """Return whether this processor has AVX-512, which decides what a sanitized build is compiled for."""
    processor = Path("/proc/cpuinfo")
    return not processor.exists() or "avx512vl" in processor.read_text()


def enabled(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


class BuildCore(build_ext):
    """Compile the common sources once and the kernels once per instruction set."""

    def build_extension(self, ext: Extension) -> None:
        msvc = self.compiler.compiler_type == "msvc"
        x86 = targets_x86()
        common = self.msvc_flags() if msvc else self.gnu_flags()
        macros = [("FASTMCMD_X86", "1")] if x86 else []
        if enabled("FASTMCMD_DEBUG"):
            macros.append(("FASTMCMD_DEBUG", "1"))

        # With sanitizers, GCC takes twice as long to optimise the bindings, and most loops are elsewhere.
        is_sanitized = enabled("FASTMCMD_SANITIZE") and not msvc
        once = common + (["-O0", *BINDING_SANITIZER_FLAGS] if is_sanitized else [])
        isas = list(GNU_FLAGS) if x86 else ["baseline"]
        if enabled("FASTMCMD_SANITIZE") and x86:
            # The same templates at two widths, the narrowest and the widest of this processor.
            excluded_isa = "avx2" if runs_avx512() else "avx512"
            isas.remove(excluded_isa)
            macros.append((f"FASTMCMD_WITHOUT_{excluded_isa.upper()}", "1"))
        excluded = LOOP_SOURCES if enabled("FASTMCMD_WITHOUT_LOOPS") else []
        if excluded:
            macros.append(("FASTMCMD_WITHOUT_LOOPS", "1"))
        jobs = []
        for source in COMMON_SOURCES:
            if source not in excluded:
                extra = [] if msvc or is_sanitized else OPTIMIZATION.get(source, [])
                jobs.append((source, self.build_temp, macros, once + extra))
        for isa in reversed(isas):  # the widest takes longest
            flags = MSVC_FLAGS[isa] if msvc else GNU_FLAGS[isa]
            if x86 and not msvc and isa == "baseline":
                flags = GNU_X86_BASELINE
            name = f'\\"{isa}\\"' if msvc else f'"{isa}"'
            isa_macros = [("FASTMCMD_ISA_NAMESPACE", f"isa_{isa}"), ("FASTMCMD_ISA_NAME", name)]
            for source in ISA_SOURCES:
                if source in excluded:
                    continue
                extra = [] if msvc else EXACT_FLAGS.get(source, [])
                extra = [*extra, *SANITIZER_FLAGS] if is_sanitized else extra
                folder = str(Path(self.build_temp, isa))
                jobs.append((source, folder, macros + isa_macros, common + flags + extra))

        def compile_one(job: tuple) -> list[str]:
            source, folder, defines, flags = job
            return self.compiler.compile(
                [source],
                output_dir=folder,
                macros=defines,
                include_dirs=ext.include_dirs,
                extra_postargs=flags,
                depends=ext.depends,
            )

        # MSVC's compiler object initialises itself on first use and is not safe to share.
        workers = 1 if msvc else min(len(jobs), os.cpu_count() or 1)
        with ThreadPoolExecutor(workers) as pool:
            objects = [name for names in pool.map(compile_one, jobs) for name in names]

        self.compiler.link_shared_object(
            objects,
            self.get_ext_fullpath(ext.name),
            libraries=self.get_libraries(ext),
            library_dirs=ext.library_dirs,
            runtime_library_dirs=ext.runtime_library_dirs,
            extra_postargs=self.link_flags(msvc),
            export_symbols=self.get_export_symbols(ext),
            build_temp=self.build_temp,
            target_lang="c++",
        )

    @staticmethod
    def gnu_flags() -> list[str]:
        # -fno-trapping-math and -fno-math-errno allow vectorisation; -ffast-math would set
        # flush-to-zero for the whole process.
        flags = ["-std=c++17", "-fvisibility=hidden", "-pthread"]
        flags += ["-fno-trapping-math", "-fno-math-errno", "-ffp-contract=fast"]
        sanitizers = os.environ.get("FASTMCMD_SANITIZE", "")
        if sanitizers:
            flags += ["-O1", "-g1", "-fno-omit-frame-pointer", f"-fsanitize={sanitizers}"]
            # Python's own flags have -fwrapv: overflow would go unseen, and GCC takes five times as long.
            flags += ["-fno-sanitize-recover=undefined", "-fno-wrapv"]
        else:
            flags += ["-O3", "-g0"]
        if enabled("FASTMCMD_WERROR"):
            flags += ["-Wall", "-Wextra", "-Werror"]
        return flags

    @staticmethod
    def msvc_flags() -> list[str]:
        # 4068, 5030: GCC's unroll pragmas and attributes.
        flags = ["/std:c++17", "/O2", "/EHsc", "/fp:precise", "/bigobj", "/wd4068", "/wd5030"]
        return flags + (["/W4", "/WX"] if enabled("FASTMCMD_WERROR") else [])

    @staticmethod
    def link_flags(msvc: bool) -> list[str]:
        if msvc:
            return []
        sanitizers = os.environ.get("FASTMCMD_SANITIZE", "")
        return ["-pthread"] + ([f"-fsanitize={sanitizers}"] if sanitizers else [])


core = Extension(
    "fastmcmd._core",
    sources=[*COMMON_SOURCES, *ISA_SOURCES],
    include_dirs=["csrc", "fastmcmd/device", get_include()],  # the formulas are shared with CUDA
    depends=sorted(
        str(path)
        for folder in ("csrc", "csrc/loops", "fastmcmd/device")
        for path in Path(folder).glob("*.h")
    ),
    language="c++",
)

setup(ext_modules=[core], cmdclass={"build_ext": BuildCore})
