#include <fstream>
#include <iostream>

#include "base/units.hpp"
#include "estimates/request.hpp"
#include "json_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

struct Arguments {
  std::string file;
  bool json = false;  // as every verb has it: answers are JSON anyway
};

std::string answer_to(const std::string& line, const std::string& source) {
  const auto request = estimates::parse_request(line, source);
  if (!request.ok()) return json_text({{"error", request.error().message}});
  return estimates::to_json(estimates::answer(*request));
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

constexpr std::size_t kMostOfLine = std::size_t{16} << 20;  // a device may never end one

// The next line, without its end; false where there is none. `source` names it.
Result<bool> read_line(std::istream& lines, const std::string& source, std::string& line) {
  line.clear();
  char next = 0;
  while (lines.get(next) && next != '\n') {
    if (line.size() == kMostOfLine) {
      return bad_input(source + ": expected a question of at most " + format_bytes(kMostOfLine) + " on a line");
    }
    line += next;
  }
  if (lines.bad()) return bad_input(source + ": cannot be read");
  return !lines.fail() || !line.empty();
}

// An answer is out before the next question is read, so that a program may ask as it learns.
Result<int> answer_all(std::istream& questions, const std::string& name, Console& console) {
  std::string line;
  for (std::size_t number = 1;; ++number) {
    const std::string source = name + ":" + std::to_string(number);
    TRIMTAB_TRY(const bool there, read_line(questions, source, line));
    if (!there) return 0;
    if (!is_blank(line)) console.out << answer_to(line, source) << "\n" << std::flush;
  }
}

Result<int> estimate_plans(const Arguments& arguments, Console& console) {
  if (arguments.file == "-") return answer_all(std::cin, "standard input", console);
  std::ifstream file(arguments.file);
  if (!file) return bad_input(arguments.file + ": cannot be read");
  return answer_all(file, arguments.file, console);
}

}  // namespace

void add_plan_estimate(CLI::App& plan, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(plan, "estimate",
                            "Answer questions about plans before anything is measured: a line of JSON each, both ways",
                            "trimtab plan estimate questions.jsonl > answers.jsonl");
  add_value(verb, "questions", arguments->file, "FILE", "A question a line (docs/estimates.md); - is standard input",
            Need::kRequired);
  add_action(verb, selection, arguments, estimate_plans);
}

}  // namespace trimtab::cli
