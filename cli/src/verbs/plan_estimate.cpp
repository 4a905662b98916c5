#include <fstream>
#include <iostream>

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

// An answer is out before the next question is read, so that a program may ask as it learns.
void answer_all(std::istream& questions, const std::string& name, Console& console) {
  std::string line;
  for (std::size_t number = 1; std::getline(questions, line); ++number) {
    if (is_blank(line)) continue;
    console.out << answer_to(line, name + ":" + std::to_string(number)) << "\n" << std::flush;
  }
}

Result<int> estimate_plans(const Arguments& arguments, Console& console) {
  if (arguments.file == "-") {
    answer_all(std::cin, "standard input", console);
    return 0;
  }
  std::ifstream file(arguments.file);
  if (!file) return bad_input(arguments.file + ": cannot be read");
  answer_all(file, arguments.file, console);
  return 0;
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
