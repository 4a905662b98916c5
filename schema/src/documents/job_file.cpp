#include "schema/job.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "documents/json_document.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab {

namespace {

Result<std::string> read_file(const std::string& path, const std::string& what) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return bad_input(path + " is a directory; " + what + " is a file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 65536> part{};
  while (file && text.size() <= kMaxDocumentBytes) {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    return bad_input("cannot read " + what + " " + path + ": " + std::strerror(errno != 0 ? errno : EIO));
  }
  if (text.size() > kMaxDocumentBytes) {
    return bad_input(path + " has more than " + std::to_string(kMaxDocumentBytes) + " bytes: this is not " + what);
  }
  return text;
}

}  // namespace

Result<Job> load_job(const std::string& path) {
  TRIMTAB_TRY(const std::string toml, read_file(path, "the job file"));
  TRIMTAB_TRY(ParsedJob parsed, parse_job_toml(toml, path, std::filesystem::path(path).parent_path().string()));
  if (!parsed.initial_plan_path.empty()) {
    TRIMTAB_TRY(parsed.job.initial_plan_json, read_file(parsed.initial_plan_path, "the initial plan"));
    TRIMTAB_TRY(const Plan plan, parse_plan(parsed.job.initial_plan_json, parsed.initial_plan_path));
  }
  if (!parsed.model_path.empty()) {
    TRIMTAB_TRY(parsed.job.model_json, read_file(parsed.model_path, "the model"));
    TRIMTAB_TRY(const Model model, parse_model(parsed.job.model_json, parsed.model_path));
  }
  return std::move(parsed.job);
}

}  // namespace trimtab
