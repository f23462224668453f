// The instruction sets compiled in, and the one in use.
#pragma once

#include <string>
#include <vector>

#include "plain_types.h"

namespace fastmcmd {

// Names of those this processor and operating system can run, slowest first.
std::vector<std::string> available_isas();

// The fastest available, or the one named by the environment variable FASTMCMD_ISA. Throws
// std::runtime_error where that is unknown or cannot run here.
const isa_tables& select_isa();

}  // namespace fastmcmd
