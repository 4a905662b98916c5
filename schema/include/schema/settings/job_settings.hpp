#pragma once

// All keys of job.toml, as its reader and docs/settings.md know them.

#include "schema/job.hpp"
#include "schema/settings/settings.hpp"

namespace trimtab {

[[nodiscard]] const SettingTable<ParsedJob>& job_settings();

}  // namespace trimtab
