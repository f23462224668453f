// The one check of the binding and the assertion of debug builds.
#pragma once

#include <stdexcept>

#define FASTMCMD_CHECK(condition, text)                    \
  do {                                                     \
    if (!(condition)) throw std::invalid_argument(text);   \
  } while (0)

#ifdef FASTMCMD_DEBUG
#define FASTMCMD_ASSERT(condition)                                                  \
  do {                                                                              \
    if (!(condition)) throw std::logic_error("fastmcmd: assertion failed: " #condition); \
  } while (0)
#else
#define FASTMCMD_ASSERT(condition) ((void)0)
#endif
