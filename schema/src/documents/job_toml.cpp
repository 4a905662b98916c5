#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "documents/job_names.hpp"
#include "schema/job.hpp"
#include "schema/job_settings.hpp"

namespace trimtab {

namespace {

const GivenSetting* find(const std::vector<GivenSetting>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &GivenSetting::name);
  return found == all.end() ? nullptr : &*found;
}

Status check_schema(const std::vector<GivenSetting>& all, std::string_view source) {
  const std::string expected = "schema: expected \"" + std::string(kJobSchema) + "\", ";
  const GivenSetting* schema = find(all, "schema");
  if (schema == nullptr) return bad_input(std::string(source) + ": " + expected + "found nothing");
  if (schema->type == GivenSetting::Type::kText && schema->text == kJobSchema) return {};
  return bad_input(schema->place + ": " + expected + "the version that this release reads, found " + schema->found);
}

bool runs_reference_trainer(const Job& job) {
  return std::ranges::any_of(job.train, [](const std::string& word) {
    return word == "trainer/train.py" || word.ends_with("/trainer/train.py");
  });
}

// Without a target plans may have every switch, and this trainer's ranks refuse most of them.
bool refuses_own_switches(const Job& job) {
  return job.knobs.memory_switches && job.target.empty() && runs_reference_trainer(job);
}

// The target may stand anywhere in the file, so this comes last.
void settle_knobs(const std::vector<GivenSetting>& all, Job& job) {
  if (!says_what_it_honours(job.target)) return;
  for (const auto& [name, knob] : kTargetKnobs) {
    if (find(all, "knobs." + std::string(name)) == nullptr) job.knobs.*knob = true;
  }
}

// What only the whole file can tell.
Status check_complete(const ParsedJob& parsed, std::string_view source) {
  const std::string prefix = std::string(source) + ": ";
  if (parsed.job.name.empty()) return bad_input(prefix + "name: expected " + kJobNameRule + ", found nothing");
  if (parsed.job.train.empty()) {
    return bad_input(prefix + "commands.train: expected the command that starts a rank, found nothing");
  }
  if (parsed.job.describe.empty() && parsed.model_path.empty()) {
    return bad_input(prefix + "commands.describe: expected the command that prints model.json, found nothing; " +
                     "or name a file by the key \"model\"");
  }
  if (refuses_own_switches(parsed.job)) {
    return bad_input(prefix + "knobs.memory_switches: expected false, found true: the ranks of commands.train, the " +
                     "reference trainer, refuse plans with most of these switches; leave the knob out, or set " +
                     "target = \"trainer\", whose plans have none that it refuses");
  }
  return {};
}

}  // namespace

Result<ParsedJob> parse_job_toml(std::string_view toml, std::string_view source, const std::string& directory) {
  TRIMTAB_TRY(const std::vector<GivenSetting> all, read_toml(toml, source, directory));
  TRIMTAB_TRY_STATUS(check_schema(all, source));
  ParsedJob parsed;
  TRIMTAB_TRY(parsed.job.working_directory, absolute_path(".", directory));
  for (const GivenSetting& given : all) TRIMTAB_TRY_STATUS(job_settings().set(parsed, given));
  settle_knobs(all, parsed.job);
  TRIMTAB_TRY_STATUS(check_complete(parsed, source));
  return parsed;
}

}  // namespace trimtab
