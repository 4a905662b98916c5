#pragma once

// A process in the background that brings the embedded daemons up for `trimtab run`, owns them, and brings them down
// when nobody needs them: no run, and no command of a run that was killed. It is the owner in up.json, so that its
// death is seen by the next `up` or `run`. Blocking.

#include "daemons/embedded.hpp"

namespace trimtab::cli {

// Until nobody needs the daemons, or they belong to somebody else or are gone. A failure is that of bringing them up,
// or of `when_up`.
[[nodiscard]] Status keep_daemons(
    const UpOptions& options, const Clock& clock,
    const std::function<Status(const UpState&)>& when_up = [](const UpState&) { return Status(); });

// Where a keeper writes; its last line says why it has failed.
[[nodiscard]] std::string keeper_log(const std::string& state_directory);
[[nodiscard]] std::string last_line(const std::string& path);

}  // namespace trimtab::cli
