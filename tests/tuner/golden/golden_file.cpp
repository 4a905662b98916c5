#include "golden_file.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "../../golden_text.hpp"

namespace trimtab::tuner::golden {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string line_at(const std::vector<std::string>& lines, std::size_t at) {
  return at < lines.size() ? lines[at] : "(the text ends here)";
}

bool is_heading(const std::string& line) {
  return line.starts_with("== ");
}

// Of the section that the line is in.
std::string heading_of(const std::vector<std::string>& lines, std::size_t at) {
  for (std::size_t i = std::min(at + 1, lines.size()); i-- > 0;) {
    if (is_heading(lines[i])) return lines[i];
  }
  return "(above the first heading)";
}

// Each with its heading.
std::vector<std::string> sections_of(const std::vector<std::string>& lines) {
  std::vector<std::string> sections;
  for (const std::string& line : lines) {
    if (is_heading(line) || sections.empty()) sections.emplace_back();
    sections.back() += line + "\n";
  }
  return sections;
}

// How many of the new text's sections the old one does not have.
std::string differing_sections(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  const std::vector<std::string> old_sections = sections_of(before);
  const std::set<std::string> known(old_sections.begin(), old_sections.end());
  const std::vector<std::string> sections = sections_of(after);
  const auto differing =
      std::count_if(sections.begin(), sections.end(), [&](const std::string& one) { return known.count(one) == 0; });
  return std::to_string(differing) + " of " + std::to_string(sections.size()) + " sections differ";
}

std::string first_difference(const std::string& name, const std::string& old_text, const std::string& new_text) {
  const std::vector<std::string> before = lines_of(old_text);
  const std::vector<std::string> after = lines_of(new_text);
  std::size_t at = 0;
  while (at < before.size() && at < after.size() && before[at] == after[at]) ++at;
  return name + ": " + differing_sections(before, after) + ", first at line " + std::to_string(at + 1) + "\n  " +
         heading_of(after, at) + "\n  old: " + line_at(before, at) + "\n  new: " + line_at(after, at) +
         "\nIf the new answer is meant: run this test with TRIMTAB_WRITE_GOLDEN=1, read the change and commit it.";
}

}  // namespace

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(TRIMTAB_SOURCE_DIR) + "/tests/tuner/golden/" + name;
  const std::string committed = trimtab::test::golden_text(path, text);
  if (committed == text) return;
  FAIL_CHECK(first_difference(name, committed, text));
}

}  // namespace trimtab::tuner::golden
