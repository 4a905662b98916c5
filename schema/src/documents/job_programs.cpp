#include "schema/settings/job_programs.hpp"

#include "base/utf8.hpp"
#include "documents/job_names.hpp"

namespace trimtab {
namespace {

constexpr std::size_t kLongestName = 64;  // of a variable in a message
constexpr const char* kRemedy = "Put what is long into a file, and hand over the file's name";

// A program would see a word only up to its first NUL: a path could become its parent's.
Status check_no_nul(const std::string& what, std::string_view text) {
  const std::size_t at = text.find('\0');
  if (at == std::string_view::npos) return {};
  return bad_input(what + " has a NUL byte (U+0000) at byte " + std::to_string(at) +
                   ", where a program would see its end: remove it");
}

Status check_length(const std::string& what, std::size_t length) {
  if (length <= kLongestWord) return {};
  return bad_input(what + " has " + std::to_string(length) +
                   " bytes, but Linux starts no program with one of more than " + std::to_string(kLongestWord) + ". " +
                   kRemedy);
}

Status check_word(const std::string& what, std::string_view text, std::size_t more = 0) {
  TRIMTAB_TRY_STATUS(check_no_nul(what, text));
  return check_length(what, text.size() + more);
}

std::string variable(const std::string& name) {
  return "the environment's " + first_of(name, kLongestName);
}

Status check_knobs(const Job& job) {
  for (const OwnKnob& knob : job.own_knobs) {
    for (const OwnSettings& value : knob.values) {
      for (const auto& [key, text] : value) {
        TRIMTAB_TRY_STATUS(check_word("a value of knob " + first_of(knob.name, kLongestName), text, key.size()));
      }
    }
  }
  return {};
}

}  // namespace

Status check_words(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
                   std::size_t most) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    TRIMTAB_TRY_STATUS(check_word("argument " + std::to_string(i), arguments[i]));
    bytes += word_bytes(arguments[i].size());
  }
  for (const auto& [name, value] : environment) {
    const std::size_t length = name.size() + 1 + value.size();
    TRIMTAB_TRY_STATUS(check_no_nul("the environment's name " + first_of(name, kLongestName), name));
    TRIMTAB_TRY_STATUS(check_word(variable(name), value, name.size() + 1));
    bytes += word_bytes(length);
  }
  if (bytes <= most) return {};
  return bad_input("the arguments and the environment take " + std::to_string(bytes) + " bytes, but at most " +
                   std::to_string(most) + " are allowed. " + kRemedy);
}

Status check_programs(const Job& job) {
  const Status whole = check_no_nul("working_directory", job.working_directory);
  if (!whole.ok()) return wrap("job " + job.name, whole.error());
  for (const auto& [name, arguments, help] : kCommands) {
    const Status fits = check_words(job.*arguments, job.environment, kMostWordsOfJob);
    if (!fits.ok()) return wrap("job " + job.name + ": commands." + std::string(name), fits.error());
  }
  const Status fits = check_knobs(job);
  return fits.ok() ? fits : wrap("job " + job.name, fits.error());
}

}  // namespace trimtab
