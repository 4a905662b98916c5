#include "targets/shell_branches.hpp"

#include <algorithm>
#include <string_view>

namespace trimtab {

namespace {

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

std::optional<bool> shell_test(const std::vector<std::string>& words) {
  constexpr std::string_view kUnknown = "$`*?[";
  const bool whole =
      words.size() == 5 && ((words[0] == "[" && words[4] == "]") || (words[0] == "[[" && words[4] == "]]"));
  if (!whole || !is_one_of(words[2], {"=", "==", "!="})) return std::nullopt;
  if ((words[1] + words[3]).find_first_of(kUnknown) != std::string::npos) return std::nullopt;
  return (words[1] == words[3]) == (words[2] != "!=");
}

void ShellBranches::begin(bool with_condition) {
  open_.emplace_back();
  open_.back().awaits = with_condition;
}

void ShellBranches::end() {
  if (!open_.empty()) open_.pop_back();
}

void ShellBranches::take(const std::string& keyword) {
  if (open_.empty()) return;
  Branch& branch = open_.back();
  if (keyword == "elif") {
    branch.now = branch.settled ? Now::kPassedOver : Now::kMay;
    branch.awaits = !branch.settled;
    branch.judged = false;
    branch.verdict.reset();
  } else if (keyword == "else") {
    branch.now = branch.settled ? Now::kPassedOver : branch.uncertain ? Now::kMay : Now::kTaken;
  } else if (keyword == "then" && branch.awaits) {
    branch.awaits = false;
    const bool taken = branch.verdict.value_or(false);
    branch.now = !branch.verdict || (taken && branch.uncertain) ? Now::kMay : taken ? Now::kTaken : Now::kPassedOver;
    branch.settled = taken;
    branch.uncertain = branch.uncertain || !branch.verdict;
  }
}

void ShellBranches::take_keywords(std::vector<std::string>& words) {
  while (!words.empty()) {
    const std::string first = words.front();
    if (is_one_of(first, {"for", "case", "select"})) {
      begin(false);
      if (first != "for") words.clear();
      return;
    }
    if (is_one_of(first, {"if", "while", "until"})) {
      begin(first == "if");
    } else if (is_one_of(first, {"fi", "done", "esac"})) {
      end();
    } else if (is_one_of(first, {"then", "else", "elif"})) {
      take(first);
    } else if (first == "!" && !open_.empty()) {
      open_.back().judged = true;  // and so without a verdict
    } else if (!is_one_of(first, {"do", "{", "}", "!", "time"})) {
      return;
    }
    words.erase(words.begin());
  }
}

// A second command before "then" makes one condition of both.
void ShellBranches::judge(const std::vector<std::string>& words) {
  if (words.empty() || open_.empty() || !open_.back().awaits) return;
  Branch& branch = open_.back();
  branch.verdict = branch.judged ? std::nullopt : shell_test(words);
  branch.judged = true;
}

bool ShellBranches::passed_over() const {
  return std::ranges::count(open_, Now::kPassedOver, &Branch::now) > 0;
}

bool ShellBranches::doubtful() const {
  return std::ranges::count(open_, Now::kMay, &Branch::now) > 0;
}

}  // namespace trimtab
