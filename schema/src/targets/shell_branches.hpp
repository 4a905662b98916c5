#pragma once

// Which branches of a shell script are taken, as far as that can be told without running it: a test that compares texts
// which are known is judged, any other may go either way. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trimtab {

// What "[ ... ]" or "[[ ... ]]" says of known texts: one = or == or != the other, without patterns.
[[nodiscard]] std::optional<bool> shell_test(const std::vector<std::string>& words);

class ShellBranches {
 public:
  // Takes the words off that only say how commands hang together ("if", "then", "fi", ...). Of "for" they are left, of
  // "case" and "select" all go.
  void take_keywords(std::vector<std::string>& words);
  // Of a command, after its keywords: where it is the whole condition of a branch, it is judged.
  void judge(const std::vector<std::string>& words);

  [[nodiscard]] bool passed_over() const { return passed_over_ > 0; }  // what stands here is not run
  [[nodiscard]] bool doubtful() const { return doubtful_ > 0; }        // it may be run or not

 private:
  enum class Now { kTaken, kMay, kPassedOver };
  struct Branch {
    Now now = Now::kMay;
    bool awaits = false;          // what is its condition
    bool judged = false;          // a command of it has been seen
    std::optional<bool> verdict;  // of that command alone
    bool settled = false;         // no branch behind is taken
    bool uncertain = false;       // one before may be
  };

  void begin(bool with_condition);
  void end();
  void take(const std::string& keyword);
  void set_now(Branch& branch, Now now);
  void count(Now now, std::int64_t by);

  std::vector<Branch> open_;
  std::int64_t passed_over_ = 0;  // of the open ones
  std::int64_t doubtful_ = 0;
};

}  // namespace trimtab
