#pragma once

// What `trimtab doctor` looks at: each check is a judgement over facts that come in as arguments. Pure.

#include "base/units.hpp"
#include "daemons/process.hpp"

namespace trimtab::cli {

enum class Health { kOk, kWarn, kFail };
[[nodiscard]] std::string_view to_string(Health health);

// How much of a job can be seen: everything, collectives and ranges, ranges only, nothing.
enum class Detail { kOff, kRanges, kCollectives, kKernels };
[[nodiscard]] std::string_view to_string(Detail detail);

struct Check {
  std::string name;
  Health health = Health::kOk;
  std::string found;
  std::string remedy;                  // empty when all is well
  std::optional<Detail> remains = {};  // in spite of what was found; nothing where it has no say
};

[[nodiscard]] Check check_program(const std::string& name, const std::string& path, bool executable);
// A library that the release can do without, at a price.
[[nodiscard]] Check check_library(const std::string& name, const std::string& path, bool readable,
                                  const std::string& price);
[[nodiscard]] Check check_cores(std::uint32_t cores, std::int32_t ranks);
[[nodiscard]] Check check_memory(Bytes available, Bytes per_rank, std::int32_t ranks);
[[nodiscard]] Check check_disk(const std::string& directory, Bytes available);
[[nodiscard]] Check check_directory(const std::string& purpose, const std::string& directory, bool writable);
enum class PortState { kFree, kOurs, kTaken };
[[nodiscard]] Check check_port(std::uint16_t port, PortState state);
// `setting` is the variable's value in the job's or this shell's environment, empty = unset.
[[nodiscard]] Check check_openblas(const std::string& setting, std::string_view cpu_flags);
[[nodiscard]] Check check_threads(const std::string& setting);
[[nodiscard]] Check check_turned_off(const std::string& setting);
// `without` is how bad its absence is: ranks of a job need it, others may.
[[nodiscard]] Check check_torch(const std::string& interpreter, const CommandOutcome& outcome, Health without);

void append(std::vector<Check>& checks, std::vector<Check> more);

// The least detail that remains of all of them; kRanges when none has a say.
[[nodiscard]] Detail remaining_detail(const std::vector<Check>& checks);

// The worst of them.
[[nodiscard]] Health overall(const std::vector<Check>& checks);

}  // namespace trimtab::cli
