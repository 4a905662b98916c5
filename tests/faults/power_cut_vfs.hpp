#pragma once

namespace trimtab::test {

// Makes SQLite of this process tell each PowerCutDisk of what happens to its files. Files elsewhere are as ever.
void use_power_cut_vfs();

}  // namespace trimtab::test
