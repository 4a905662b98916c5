#pragma once

#include <string_view>

namespace trimtab {

// Names are used as ids and in file names: [A-Za-z0-9._-]{1,64}, and not "." or "..".
[[nodiscard]] bool is_job_name(std::string_view name);

}  // namespace trimtab
