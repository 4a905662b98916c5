#include "ranks/prepared_ranks.hpp"

#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/text_parts.hpp"
#include "base/units.hpp"
#include "commands/scratch.hpp"
#include "host/process_facts.hpp"
#include "processes/printable_text.hpp"

namespace trimtab::agent {

namespace {

constexpr const char* kNotes = "TRIMTAB_IMPORTS";
constexpr const char* kHeld = "TRIMTAB_HELD";
constexpr Nanoseconds kKept = std::chrono::minutes(30);
constexpr Nanoseconds kHookPatience = std::chrono::seconds(30);  // until the hook has taken the process
constexpr std::size_t kKinds = 2;                                // a trial's launches are of two plans in turn
constexpr std::size_t kProcesses = 2;
constexpr int kMostAttempts = 4;
constexpr std::size_t kMostSaid = 4096;

// What says which launch it is, or where its ranks meet, and is read when the program trains.
bool is_of_launch(const std::string& name) {
  static const std::set<std::string> kOfLaunch{"TRIMTAB_LAUNCH",        "TRIMTAB_VARIANT",       "TRIMTAB_PLAN",
                                               "TRIMTAB_EPOCH",         "TRIMTAB_TARGET_CONFIG", "TRIMTAB_NCCL_TABLE",
                                               "TRIMTAB_NCCL_TABLE_ID", "MASTER_ADDR",           "MASTER_PORT"};
  return kOfLaunch.contains(name);
}

// `env NAME=VALUE ... PROGRAM ...`, by which jobs say a rank's number, is PROGRAM in that environment.
void resolve_env(std::vector<std::string>& words, Environment& environment) {
  if (words.empty() || (words[0] != "env" && words[0] != "/usr/bin/env")) return;
  const auto names = [](const std::string& word) {
    return word.find('=') != std::string::npos && word[0] != '-' && word[0] != '=';
  };
  const auto program = std::find_if_not(words.begin() + 1, words.end(), names);
  if (program == words.end() || program->starts_with('-') || program->starts_with('=')) return;
  for (auto word = words.begin() + 1; word != program; ++word) {
    const auto equals = word->find('=');
    environment[word->substr(0, equals)] = word->substr(equals + 1);
  }
  words.erase(words.begin(), program);
}

bool begins_with(const std::vector<std::string>& words, const std::vector<std::string>& prefix) {
  return words.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), words.begin());
}

// A file of no name, gone with the last process that has it open.
Result<Descriptor> memory_file() {
  Descriptor file(::memfd_create("trimtab", MFD_CLOEXEC));
  if (!file) return unavailable(std::string("couldn't make a file in memory: ") + std::strerror(errno));
  return file;
}

// What the hook reads: the number of arguments, these, and the environment, with a zero behind each.
Result<Descriptor> told_launch(const std::vector<std::string>& arguments, const Environment& environment) {
  TRIMTAB_TRY(Descriptor file, memory_file());
  std::string text = std::to_string(arguments.size()) + '\0';
  for (const std::string& argument : arguments) text += argument + '\0';
  for (const auto& [name, value] : environment) text += name + '=' + value + '\0';
  if (!std::cmp_equal(::write(file.get(), text.data(), text.size()), text.size())) {
    return unavailable(std::string("couldn't write a file in memory: ") + std::strerror(errno));
  }
  return file;
}

// One byte, so that it never waits, with the two descriptors.
Status send_descriptors(int channel, std::array<int, 2> descriptors) {
  char byte = 1;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  if (::sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return {};
  return unavailable(std::string("it does not take its launch: ") + std::strerror(errno));
}

// Imports ran at idle priority where the user may go back from it. On a busy machine it would take long to notice
// itself that it is wanted now.
void raise_priority(pid_t pid) {
  const int policy = ::sched_getscheduler(0);
  const sched_param none{};
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", gone)) {
    ::sched_setscheduler(std::atoi(task.path().filename().c_str()), policy, &none);
  }
}

class PreparedChild final : public HeldChild {
 public:
  PreparedChild(pid_t pid, std::uint64_t start_time, Descriptor channel, Descriptor told, int log)
      : pid_(pid), start_time_(start_time), channel_(std::move(channel)), told_(std::move(told)), log_(log) {}
  ~PreparedChild() override {
    if (!channel_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] pid_t pid() const override { return pid_; }
  [[nodiscard]] std::uint64_t start_time() const override { return start_time_; }
  [[nodiscard]] Status release() override {
    TRIMTAB_TRY_STATUS(send_descriptors(channel_.get(), {log_, told_.get()}));
    channel_.close();
    ::kill(pid_, SIGCONT);  // somebody may have stopped it since it was looked at
    raise_priority(pid_);
    return {};
  }

 private:
  pid_t pid_;
  std::uint64_t start_time_;
  Descriptor channel_;  // until it is released
  Descriptor told_;
  int log_;
};

Nanoseconds processor_time(pid_t pid) {
  const auto facts = host::read_process_facts("/", pid);
  return facts.ok() ? facts->cpu_time : Nanoseconds(0);
}

// What programs may still take without swapping, as the kernel estimates it.
Result<Bytes> available_memory() {
  constexpr std::string_view kLine = "MemAvailable:";
  TRIMTAB_TRY(const std::string text, read_file("/proc/meminfo"));
  const auto line = text.find(kLine);
  if (line == std::string::npos) return unavailable("/proc/meminfo does not say how much memory is available");
  return Bytes{1024} * std::strtoll(text.c_str() + line + kLine.size(), nullptr, 10);
}

// It needs no more than the rank that has imported the same and trains.
Status check_memory(pid_t like) {
  TRIMTAB_TRY(const auto facts, host::read_process_facts("/", like));
  TRIMTAB_TRY(const Bytes available, available_memory());
  if (available >= facts.resident_bytes) return {};
  return unavailable(format_bytes(available) + " of memory are available on this node, and the rank that trains has " +
                     format_bytes(facts.resident_bytes));
}

// The parts of a path list, or of a command line as the kernel has it.
std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string bytes_of(std::string_view hexadecimal) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hexadecimal.size(); at += 2) {
    bytes.push_back(static_cast<char>(std::strtoul(std::string(hexadecimal.substr(at, 2)).c_str(), nullptr, 16)));
  }
  return bytes;
}

// A script that names Python in its first line, as torchrun is.
bool names_interpreter(const std::string& script, const std::string& interpreter) {
  const auto text = read_file(script);
  const std::string line = text.ok() ? text->substr(0, text->find('\n')) : "";
  return line == "#!" + interpreter || line == "#! " + interpreter || line == "#!/usr/bin/env " + interpreter;
}

// The command without its program's arguments. Empty where something else than Python ran first: that would run twice.
// The notes begin with the number of arguments and Python's command line, in hexadecimal digits.
std::vector<std::string> without_arguments(std::vector<std::string> words, const std::string& notes) {
  char* behind = nullptr;
  const std::size_t count = std::strtoull(notes.c_str(), &behind, 10);
  const std::string line(behind,
                         std::min(notes.find('\n'), notes.size()) - static_cast<std::size_t>(behind - notes.c_str()));
  std::vector<std::string> own = parts_of(bytes_of(std::string_view(line).substr(line.empty() ? 0 : 1)), '\0');
  own.pop_back();  // behind the last zero
  if (count >= words.size() || count >= own.size()) return {};
  const auto arguments = static_cast<std::ptrdiff_t>(count);
  if (!std::equal(words.end() - arguments, words.end(), own.end() - arguments)) return {};
  words.resize(words.size() - count);
  own.resize(own.size() - count);
  if (words == own) return words;
  const std::string script = own.back();
  own.pop_back();
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename(); };
  const bool is_script = words.size() == 1 && !own.empty() && name(script) == name(words.front());
  return is_script && names_interpreter(script, joined(own, " ")) ? words : std::vector<std::string>();
}

}  // namespace

void ask_for_notes(const Job& job, const std::string& notes, Environment& environment) {
  const bool tries = job.mode == JobMode::kAuto || job.mode == JobMode::kApprove;
  const bool restarts = job.delivery == Delivery::kRestart && job.allow_restarts && job.submit.empty();
  const auto path = environment.find("PYTHONPATH");
  if (!job.trials.prepare || !tries || !restarts || path == environment.end()) return;
  const std::vector<std::string> all = parts_of(path->second, ':');
  for (const std::string& folder : all) {
    if (folder.empty()) continue;
    const std::string hook = folder + "/watch_hook";
    std::error_code absent;
    if (!std::filesystem::exists(hook + "/trimtab_prepared.py", absent)) continue;
    if (std::ranges::find(all, hook) == all.end()) path->second.insert(0, hook + ":");
    environment[kNotes] = notes;
    return;
  }
}

PreparedRanks::~PreparedRanks() {
  for (auto& [place, next] : next_) {
    for (const auto& process : next.processes) process->watch->kill_all();
  }
}

PreparedRanks::Kind PreparedRanks::kind_of(const RankStart& start) {
  Kind kind{start.arguments, start.environment, start.working_directory};
  resolve_env(kind.words, kind.environment);
  return kind;
}

// Empty: the launches may differ in their arguments alone.
std::string PreparedRanks::difference(const Kind& one, const Kind& other) {
  if (one.directory != other.directory) return "the working directory";
  for (const auto* const side : {&one, &other}) {
    const Environment& rest = side == &one ? other.environment : one.environment;
    for (const auto& [name, value] : side->environment) {
      const auto found = rest.find(name);
      if (!is_of_launch(name) && (found == rest.end() || found->second != value)) return name;
    }
  }
  return {};
}

// By somebody's signal: a launch that went into it would stand.
bool PreparedRanks::is_stopped(const Process& process) const {
  const auto stat = processes_.stat(process.pid);
  return stat && stat->stopped();
}

std::unique_ptr<HeldChild> PreparedRanks::take(const RankStart& start, int log) {
  const auto notes = start.environment.find(kNotes);
  if (notes == start.environment.end()) return nullptr;
  const Place place{start.id.job, start.id.rank};
  Next& next = next_[place];
  const Kind kind = kind_of(start);
  std::string why;
  for (auto one = next.processes.begin(); one != next.processes.end(); ++one) {
    Process& process = **one;
    hear(place, process);
    std::string differs = difference(process.kind, kind);
    if (differs.empty() && !begins_with(kind.words, process.kind.words)) differs = "the program";
    if (differs.empty() && (process.ending || !process.here)) differs = "that it has hardly begun";
    if (differs.empty() && !processes_.is_alive(process.pid, process.start_time)) differs = "that it has ended";
    if (differs.empty() && is_stopped(process)) differs = "that it has been stopped";
    if (!differs.empty()) {
      why = differs;
      continue;
    }
    auto told =
        told_launch({kind.words.begin() + static_cast<std::ptrdiff_t>(process.kind.words.size()), kind.words.end()},
                    kind.environment);
    if (!told.ok()) {
      why = told.error().message;
      continue;
    }
    costs_[place.first] += processor_time(process.pid);
    auto child = std::make_unique<PreparedChild>(process.pid, process.start_time, std::move(process.channel),
                                                 std::move(told).value(), log);
    next.processes.erase(one);
    spdlog::info("{} of launch {} goes on from a prepared process", describe(start.id), start.launch);
    return child;
  }
  if (!why.empty())
    spdlog::info("{} of launch {} is launched bare: what was prepared differs in {}", describe(start.id), start.launch,
                 why);
  // It notes its imports anew.
  next.prefix.clear();
  std::error_code absent;
  std::filesystem::remove(notes->second, absent);
  return nullptr;
}

void PreparedRanks::started(const RankStart& start) {
  if (!start.environment.contains(kNotes)) return;
  Next& next = next_[{start.id.job, start.id.rank}];
  Kind kind = kind_of(start);
  std::erase_if(next.kinds, [&](const Kind& one) { return difference(one, kind).empty(); });
  next.kinds.insert(next.kinds.begin(), std::move(kind));
  if (next.kinds.size() > kKinds) next.kinds.pop_back();
  next.attempts = 0;
}

void PreparedRanks::follow(Nanoseconds now, const std::function<pid_t(const std::string&, std::uint32_t)>& trains) {
  for (auto& [place, next] : next_) {
    for (const auto& process : next.processes) {
      hear(place, *process);
      const auto is_like = [&](const Kind& kind) { return difference(kind, process->kind).empty(); };
      const Nanoseconds age = now - process->since;
      const bool wanted = std::ranges::any_of(next.kinds, is_like);
      if (!wanted || is_stopped(*process) || age > kKept || (!process->here && age > kHookPatience)) {
        end(place, *process);
      }
    }
    const pid_t pid = trains(place.first, place.second);
    if (pid != 0 && next.attempts < kMostAttempts) prepare(place, next, pid, now);
  }
}

// Two processes: a trial's launches follow each other soon. Of each plan one, where their environments differ.
void PreparedRanks::prepare(const Place& place, Next& next, pid_t pid, Nanoseconds now) {
  if (next.kinds.empty()) return;
  const auto notes = read_file(next.kinds.front().environment.at(kNotes));
  if (!notes.ok()) return;
  const bool has_imports = std::ranges::count(*notes, '\n') > 1;
  if (next.prefix.empty()) next.prefix = without_arguments(next.kinds.front().words, *notes);
  for (const Kind& kind : next.kinds) {
    const auto there = static_cast<std::size_t>(std::ranges::count_if(
        next.processes, [&](const auto& process) { return difference(process->kind, kind).empty(); }));
    const bool enough = there >= kProcesses / next.kinds.size();
    if (enough || !has_imports || next.prefix.empty() || !begins_with(kind.words, next.prefix)) continue;
    ++next.attempts;
    Status begun = check_memory(pid);
    if (begun.ok()) begun = begin(place, next, kind, now);
    if (!begun.ok())
      spdlog::warn("the next launch of {} rank {} is not prepared: {}", place.first, place.second,
                   begun.error().message);
    return;
  }
}

Status PreparedRanks::begin(const Place& place, Next& next, const Kind& kind, Nanoseconds now) {
  TRIMTAB_TRY(auto channel, make_channel(Channel::kSocket));
  TRIMTAB_TRY(const Descriptor printed, memory_file());
  ProcessRequest request{next.prefix, kind.environment, kind.directory, printed.get(), printed.get(),
                         true,        channel[1].get()};
  request.environment[kHeld] = std::to_string(channel[1].get());
  TRIMTAB_TRY(const auto held, processes_.fork(request));
  auto process = std::make_unique<Process>();
  process->kind = {next.prefix, kind.environment, kind.directory};
  process->pid = held->pid();
  process->start_time = held->start_time();
  process->channel = std::move(channel[0]);
  process->since = now;
  TRIMTAB_TRY(process->watch,
              processes_.watch(held->pid(), [this, pid = held->pid()](const ProcessEnd& end) { ended(pid, end); }));
  TRIMTAB_TRY_STATUS(held->release());
  spdlog::info("the next launch of {} rank {} is being prepared, pid {}", place.first, place.second, process->pid);
  next.processes.push_back(std::move(process));
  return {};
}

// Lines: "here", "ready ...", "failed ...".
void PreparedRanks::hear(const Place& place, Process& process) const {
  std::array<char, kMostSaid> room{};
  const ssize_t count = process.channel ? ::recv(process.channel.get(), room.data(), room.size(), MSG_DONTWAIT) : 0;
  if (count <= 0) return;
  process.here = true;
  const std::string said = last_lines({room.data(), static_cast<std::size_t>(count)}, kMostSaid);
  if (said == "here") return;
  if (said.find("failed ") != std::string::npos) process.ending = true;  // by itself, in a moment
  const auto facts = host::read_process_facts("/", process.pid);
  const std::string size = facts.ok() ? ", " + format_bytes(facts->resident_bytes) : "";
  spdlog::info("the next launch of {} rank {}, pid {}: {}{}", place.first, place.second, process.pid, said, size);
}

void PreparedRanks::end(const Place& place, Process& process) {
  if (std::exchange(process.ending, true)) return;
  costs_[place.first] += processor_time(process.pid);
  process.watch->kill_all();
}

void PreparedRanks::ended(pid_t pid, const ProcessEnd& end) {
  for (auto& [place, next] : next_) {
    const auto found = std::ranges::find_if(next.processes, [pid](const auto& one) { return one->pid == pid; });
    if (found == next.processes.end()) continue;
    hear(place, **found);
    if (!(*found)->ending)
      spdlog::warn("process {}, prepared for the next launch of {} rank {}, {}", pid, place.first, place.second,
                   describe(end));
    next.processes.erase(found);
    return;
  }
}

void PreparedRanks::forget(const std::string& job) {
  for (auto& [place, next] : next_) {
    if (place.first != job) continue;
    next.kinds.clear();
    for (const auto& process : next.processes) end(place, *process);
  }
  std::erase_if(next_, [&](const auto& one) { return one.first.first == job && one.second.processes.empty(); });
  costs_.erase(job);
}

Nanoseconds PreparedRanks::take_cost(const std::string& job) {
  const auto found = costs_.find(job);
  return found == costs_.end() ? Nanoseconds(0) : std::exchange(found->second, Nanoseconds(0));
}

std::size_t PreparedRanks::waiting() const {
  std::ptrdiff_t count = 0;
  for (const auto& [place, next] : next_) {
    count += std::ranges::count_if(next.processes, [](const auto& one) { return one->here && !one->ending; });
  }
  return static_cast<std::size_t>(count);
}

}  // namespace trimtab::agent
