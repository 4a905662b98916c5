#pragma once

// What an NVTX program calls through its function tables, once InitializeInjectionNvtx2 has put these there.

#include "nvtx_abi.hpp"

namespace trimtab::inject::nvtx {

// Puts our functions into the program's tables. False when the program's interface is not one that we know.
bool attach(GetExportTable get_export_table);

}  // namespace trimtab::inject::nvtx
