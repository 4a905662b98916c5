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

void ShellBranches::count(Now now, std::int64_t by) {
  passed_over_ += now == Now::kPassedOver ? by : 0;
  doubtful_ += now == Now::kMay ? by : 0;
}

void ShellBranches::set_now(Branch& branch, Now now) {
  count(branch.now, -1);
  branch.now = now;
  count(now, 1);
}

void ShellBranches::begin(bool with_condition) {
  open_.emplace_back();
  open_.back().awaits = with_condition;
  count(open_.back().now, 1);
}

void ShellBranches::end() {
  if (open_.empty()) return;
  count(open_.back().now, -1);
  open_.pop_back();
}

void ShellBranches::take(const std::string& keyword) {
  if (open_.empty()) return;
  Branch& branch = open_.back();
  if (keyword == "elif") {
    set_now(branch, branch.settled ? Now::kPassedOver : Now::kMay);
    branch.awaits = !branch.settled;
    branch.judged = false;
    branch.verdict.reset();
  } else if (keyword == "else") {
    set_now(branch, branch.settled ? Now::kPassedOver : branch.uncertain ? Now::kMay : Now::kTaken);
  } else if (branch.awaits) {
    branch.awaits = false;
    const bool taken = branch.verdict.value_or(false);
    const bool may = !branch.verdict || (taken && branch.uncertain);
    set_now(branch, may ? Now::kMay : taken ? Now::kTaken : Now::kPassedOver);
    branch.settled = taken;
    branch.uncertain = branch.uncertain || !branch.verdict;
  }
}

void ShellBranches::take_keywords(std::vector<std::string>& words) {
  std::size_t taken = 0;
  for (; taken < words.size(); ++taken) {
    const std::string& word = words[taken];
    if (is_one_of(word, {"for", "case", "select"})) {
      begin(false);
      if (word != "for") taken = words.size();
      break;
    }
    if (is_one_of(word, {"if", "while", "until"})) {
      begin(word == "if");
    } else if (is_one_of(word, {"fi", "done", "esac"})) {
      end();
    } else if (is_one_of(word, {"then", "else", "elif"})) {
      take(word);
    } else if (word == "!" && !open_.empty()) {
      open_.back().judged = true;  // and so without a verdict
    } else if (!is_one_of(word, {"do", "{", "}", "!", "time"})) {
      break;
    }
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(taken));
}

// A second command before "then" makes one condition of both.
void ShellBranches::judge(const std::vector<std::string>& words) {
  if (words.empty() || open_.empty() || !open_.back().awaits) return;
  Branch& branch = open_.back();
  branch.verdict = branch.judged ? std::nullopt : shell_test(words);
  branch.judged = true;
}

}  // namespace trimtab
