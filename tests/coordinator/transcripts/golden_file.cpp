#include "golden_file.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

#include "../../golden_text.hpp"

namespace trimtab::coordinator {
namespace {

std::string first_difference(const std::string& old_text, const std::string& new_text) {
  std::istringstream old_lines(old_text);
  std::istringstream new_lines(new_text);
  std::string before;  // the last line that is an event
  for (int number = 1;; ++number) {
    std::string old_line;
    std::string new_line;
    const bool has_old = static_cast<bool>(std::getline(old_lines, old_line));
    const bool has_new = static_cast<bool>(std::getline(new_lines, new_line));
    if (!has_old && !has_new) return "they differ in how the last line ends";
    if (!has_old) old_line = "(the file ends)";
    if (!has_new) new_line = "(the text ends)";
    if (old_line != new_line || !has_old || !has_new) {
      return "line " + std::to_string(number) + "\n  after: " + before + "\n  old:   " + old_line +
             "\n  new:   " + new_line;
    }
    if (new_line.rfind("  ", 0) != 0) before = new_line;
  }
}

}  // namespace

void check_golden(const std::string& name, const std::string& text) {
  const std::string kept = test::golden_text(std::string(TRIMTAB_GOLDEN) + "/" + name + ".txt", text);
  if (kept == text) {
    SUCCEED(name);
    return;
  }
  FAIL_CHECK("golden/" << name << ".txt is not what the test makes: " << first_difference(kept, text)
                       << "\nIf the new one is right, run this test with TRIMTAB_WRITE_GOLDEN=1 and commit the file. "
                          "What stands behind a digest: see golden_file.hpp.");
}

bool keeps_whole() {
  return std::getenv("TRIMTAB_WHOLE_TRANSCRIPTS") != nullptr;
}

void keep_whole(const std::string& name, const std::string& text) {
  if (keeps_whole())
    test::write_text(std::string(std::getenv("TRIMTAB_WHOLE_TRANSCRIPTS")) + "/" + name + ".txt", text);
}

}  // namespace trimtab::coordinator
