#include "init/command_reading.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "arguments.hpp"

namespace trimtab::cli {

namespace {

using Words = std::vector<std::string>;

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_among(std::string_view word, const auto& known) {
  return std::ranges::find(known, word) != std::end(known);
}

bool is_python(const std::string& word) {
  const std::string name = base_name(word);
  return name == "python" || name.starts_with("python3") || name.starts_with("python2") || name == "pypy3";
}

bool is_shell(const std::string& word) {
  constexpr std::array<std::string_view, 5> kShells{"sh", "bash", "dash", "zsh", "ksh"};
  return is_among(base_name(word), kShells);
}

bool is_script(std::string_view word) {
  return word.ends_with(".py") || word.ends_with(".sh") || word.ends_with(".bash");
}

// "NAME=VALUE", as a shell and `env` have it.
bool is_assignment(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || (word[0] >= '0' && word[0] <= '9')) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), [](char c) {
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
}

// "--nproc-per-node" for "--nproc_per_node=2".
std::string option_name(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
  return name;
}

constexpr std::array<std::string_view, 36> kFlags{"--standalone",
                                                  "--no-python",
                                                  "--run-path",
                                                  "--use-env",
                                                  "--cpu",
                                                  "--multi-gpu",
                                                  "--tpu",
                                                  "--use-deepspeed",
                                                  "--use-fsdp",
                                                  "--use-megatron-lm",
                                                  "--quiet",
                                                  "-q",
                                                  "--debug",
                                                  "--same-network",
                                                  "-l",
                                                  "--label",
                                                  "-u",
                                                  "--unbuffered",
                                                  "-K",
                                                  "--exclusive",
                                                  "--overlap",
                                                  "-v",
                                                  "--verbose",
                                                  "--allow-run-as-root",
                                                  "--oversubscribe",
                                                  "--tag-output",
                                                  "--no-local-rank",
                                                  "--enable-each-rank-log",
                                                  "-i",
                                                  "--pty",
                                                  "-O",
                                                  "-B",
                                                  "-I",
                                                  "-E",
                                                  "-s",
                                                  "--foreground"};

class Reader {
 public:
  explicit Reader(const Words& words) : words_(words) {}

  CommandReading read() {
    while (at_ < words_.size() && pass_one()) {
    }
    if (at_ < words_.size()) read_program();
    return std::move(reading_);
  }

 private:
  // Whether something in front of the program was passed over.
  bool pass_one() {
    const std::string& word = words_[at_];
    constexpr std::array<std::string_view, 11> kWrappers{"env",  "nohup",  "nice",    "time",    "stdbuf", "timeout",
                                                         "exec", "setsid", "numactl", "taskset", "ionice"};
    if (is_assignment(word)) {
      const std::size_t equals = word.find('=');
      reading_.environment[word.substr(0, equals)] = word.substr(equals + 1);
      ++at_;
      return true;
    }
    const std::string name = base_name(word);
    if (is_among(name, kWrappers)) {
      ++at_;
      pass_wrapper_options(name);
      return true;
    }
    if (name == "accelerate" && at_ + 1 < words_.size() && words_[at_ + 1] == "launch") return pass_launcher(name, 2);
    constexpr std::array<std::string_view, 6> kLaunchers{"torchrun", "deepspeed", "srun", "mpirun", "mpiexec", "prun"};
    if (is_among(name, kLaunchers)) return pass_launcher(name, 1);
    return is_python(word) && pass_launching_module();
  }

  // timeout and taskset take a word of their own before the command.
  void pass_wrapper_options(const std::string& name) {
    pass_options("");
    if ((name == "timeout" || name == "taskset") && at_ < words_.size()) ++at_;
  }

  bool pass_launcher(const std::string& name, std::size_t words) {
    at_ += words;
    launched_by(name);
    return true;
  }

  // python3 -m torch.distributed.run, and the like.
  bool pass_launching_module() {
    std::size_t at = at_ + 1;
    while (at < words_.size() && words_[at].starts_with("-") && words_[at] != "-m") ++at;
    if (at + 1 >= words_.size() || words_[at] != "-m") return false;
    const std::string& module = words_[at + 1];
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kModules{
        {{"torch.distributed.run", "torchrun"},
         {"torch.distributed.launch", "torchrun"},
         {"accelerate.commands.launch", "accelerate"},
         {"deepspeed.launcher.runner", "deepspeed"},
         {"trimtab.megatron", "trimtab.megatron"}}};
    const auto* const found =
        std::ranges::find(kModules, std::string_view(module), &decltype(kModules)::value_type::first);
    if (found == kModules.end()) return false;
    reading_.interpreter = words_[at_];
    at_ = at + 2;
    if (found->second != "trimtab.megatron") launched_by(std::string(found->second));
    return true;
  }

  void launched_by(const std::string& name) {
    reading_.launchers.push_back(name);
    is_module_ = false;
    // srun starts one torchrun a node: what counts is what the innermost starts.
    reading_.per_node.reset();
    if (reading_.launchers.size() > 1) reading_.processes.reset();
    const std::size_t begin = at_;
    pass_options(name);
    reading_.launch_options.assign(words_.begin() + static_cast<std::ptrdiff_t>(begin),
                                   words_.begin() + static_cast<std::ptrdiff_t>(at_));
    // Its children are started by the interpreter that it has itself, if they are scripts.
    starts_scripts_ = name == "torchrun" || name == "accelerate" || name == "deepspeed";
  }

  void pass_options(const std::string& launcher) {
    while (at_ < words_.size() && words_[at_].starts_with("-") && words_[at_] != "--") {
      const std::string& word = words_[at_++];
      if (word == "-m" || word == "--module") is_module_ = true;
      const std::size_t equals = word.find('=');
      const std::string name = option_name(word);
      const bool takes_next = equals == std::string::npos && !is_among(name, kFlags) && name != "--module" &&
                              word != "-m" && at_ < words_.size() && !words_[at_].starts_with("-") &&
                              !is_script(words_[at_]) && !is_python(words_[at_]);
      const std::string value = equals != std::string::npos ? word.substr(equals + 1) : takes_next ? words_[at_] : "";
      if (takes_next) ++at_;
      take_count(launcher, name, value);
    }
    if (at_ < words_.size() && words_[at_] == "--") ++at_;
  }

  void take_count(const std::string& launcher, const std::string& name, const std::string& value) {
    const auto of = [&](std::initializer_list<std::string_view> names) { return is_among(name, names); };
    // "1:4" is the least and the most of an elastic launch.
    const auto count = parse_number<std::int32_t>(std::string_view(value).substr(value.rfind(':') + 1));
    if (!count || *count < 1) {
      if (launcher == "torchrun" && of({"--nproc-per-node"})) reading_.is_counted_there = true;
      return;
    }
    const bool mpi = launcher == "mpirun" || launcher == "mpiexec" || launcher == "prun";
    if (launcher == "torchrun" && of({"--nproc-per-node"})) reading_.per_node = count;
    if (launcher == "torchrun" && of({"--nnodes"})) reading_.nodes = count;
    if (launcher == "accelerate" && of({"--num-processes"})) reading_.processes = count;
    if (launcher == "deepspeed" && of({"--num-gpus", "--num-accelerators"})) reading_.per_node = count;
    if (launcher == "deepspeed" && of({"--num-nodes"})) reading_.nodes = count;
    if (launcher == "srun" && of({"-n", "--ntasks"})) reading_.processes = count;
    if (launcher == "srun" && of({"--ntasks-per-node"})) reading_.per_node = count;
    if (launcher == "srun" && of({"-N", "--nodes"})) reading_.nodes = count;
    if (mpi && of({"-np", "-n", "--np", "-c"})) reading_.processes = count;
  }

  void read_program() {
    reading_.rank_words.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    if (is_module_) return take_script(at_, true);
    const std::string& word = words_[at_];
    reading_.program = word;
    if (is_python(word)) {
      reading_.interpreter = word;
      ++at_;
      pass_options("");
      return take_script(at_, is_module_);
    }
    if (is_shell(word)) {
      std::size_t at = at_ + 1;
      while (at < words_.size() && words_[at].starts_with("-")) ++at;
      return take_script(at, false);
    }
    if (is_script(word) || starts_scripts_) return take_script(at_, false);
    reading_.script_options.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, words_.end());
  }

  void take_script(std::size_t at, bool module) {
    if (at >= words_.size()) return;
    (module ? reading_.module : reading_.script) = words_[at];
    reading_.script_options.assign(words_.begin() + static_cast<std::ptrdiff_t>(at) + 1, words_.end());
  }

  const Words& words_;
  std::size_t at_ = 0;
  bool is_module_ = false;
  bool starts_scripts_ = false;
  CommandReading reading_;
};

}  // namespace

bool CommandReading::launched_by(std::string_view name) const {
  return std::ranges::find(launchers, name) != launchers.end();
}

bool CommandReading::is_shell_script() const {
  return !script.empty() && !script.ends_with(".py") && interpreter.empty() && launchers.empty();
}

std::optional<std::int32_t> CommandReading::world_size() const {
  if (processes) return processes;
  // More than any job has, where the product is more than can be counted.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (per_node) return static_cast<std::int32_t>(std::min(kMost, std::int64_t{*per_node} * nodes.value_or(1)));
  // torchrun and a plain program start one process on each node where nobody says more.
  const bool one_each = !is_counted_there && (launchers.empty() || launched_by("torchrun") || launched_by("srun"));
  return one_each ? std::optional(nodes.value_or(1)) : std::nullopt;
}

CommandReading read_command(const std::vector<std::string>& words) {
  return Reader(words).read();
}

}  // namespace trimtab::cli
