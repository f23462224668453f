#include "dispatch.h"

#include <cstdlib>
#include <stdexcept>

#if defined(_MSC_VER) && defined(_M_X64)
#include <immintrin.h>
#include <intrin.h>
#endif

namespace fastmcmd {

namespace isa_baseline {
extern const isa_tables tables;
}
#ifdef FASTMCMD_X86
#ifndef FASTMCMD_WITHOUT_AVX2
namespace isa_avx2 {
extern const isa_tables tables;
}
#endif
#ifndef FASTMCMD_WITHOUT_AVX512
namespace isa_avx512 {
extern const isa_tables tables;
}
#endif
#endif

namespace {

struct candidate {
  const isa_tables* tables;
  bool runs;
};

#ifdef FASTMCMD_X86
#ifdef _MSC_VER

struct processor {
  bool sse42, avx2, avx512;
};

bool bit(int word, int index) { return (static_cast<unsigned>(word) >> index) & 1; }

// xgetbv tells which registers the operating system saves: xmm, ymm (bits 1, 2), zmm (5 to 7).
processor detect() {
  int id[4];
  __cpuid(id, 0);
  const int leaves = id[0];
  __cpuid(id, 1);
  const bool sse42 = bit(id[2], 20) && bit(id[2], 23);
  const bool fma = bit(id[2], 12) && bit(id[2], 28);
  const unsigned long long saved = bit(id[2], 27) ? _xgetbv(0) : 0;
  int extended[4] = {};
  if (leaves >= 7) __cpuidex(extended, 7, 0);
  const bool avx2 = sse42 && fma && bit(extended[1], 5) && (saved & 0x6) == 0x6;
  const bool avx512 = avx2 && (saved & 0xe6) == 0xe6 && bit(extended[1], 16) &&
                      bit(extended[1], 17) && bit(extended[1], 28) && bit(extended[1], 30) &&
                      bit(extended[1], 31);
  return {sse42, avx2, avx512};
}
bool has_baseline() { return detect().sse42; }
[[maybe_unused]] bool has_avx2() { return detect().avx2; }
[[maybe_unused]] bool has_avx512() { return detect().avx512; }

#else

// These include the operating system's support for the registers.
bool has_baseline() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); }
bool has_avx2() {
  return has_baseline() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
[[maybe_unused]] bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

#endif
#endif

std::vector<candidate> candidates() {
#ifdef FASTMCMD_X86
  return {{&isa_baseline::tables, has_baseline()},
#ifndef FASTMCMD_WITHOUT_AVX2
          {&isa_avx2::tables, has_avx2()},
#endif
#ifndef FASTMCMD_WITHOUT_AVX512
          {&isa_avx512::tables, has_avx512()},
#endif
  };
#else
  return {{&isa_baseline::tables, true}};
#endif
}

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const candidate& c : candidates()) {
    if (c.runs) names.emplace_back(c.tables->name);
  }
  return names;
}

const isa_tables& select_isa() {
  const char* wanted = std::getenv("FASTMCMD_ISA");
  const isa_tables* best = nullptr;
  std::string known;
  for (const candidate& c : candidates()) {
    if (wanted && wanted[0] != '\0') {
      if (c.tables->name == std::string(wanted)) {
        if (c.runs) return *c.tables;
        throw std::runtime_error(std::string("FASTMCMD_ISA is '") + wanted +
                                 "', which this processor or operating system does not support");
      }
      known += std::string(known.empty() ? "'" : ", '") + c.tables->name + "'";
    } else if (c.runs) {
      best = c.tables;
    }
  }
  if (!known.empty()) {
    throw std::runtime_error(std::string("FASTMCMD_ISA is '") + wanted + "', must be one of " +
                             known);
  }
  if (!best) throw std::runtime_error("fastmcmd needs a processor with SSE 4.2 (x86-64-v2)");
  return *best;
}

}  // namespace fastmcmd
