#include "published/traces/chrome_events.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "documents/json_document.hpp"

namespace trimtab::published {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostMembers = 12;  // of the document, for messages
constexpr std::size_t kMostDevices = 1024;
constexpr std::size_t kLongestKept = 512;  // of a name: what follows decides nothing
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

// Microseconds as they stand, "4203669604595.407", in nanoseconds: a double has no room for today's.
std::optional<std::int64_t> nanoseconds(std::string_view text) {
  const std::size_t dot = text.find('.');
  const auto whole = parse_number<std::int64_t>(text.substr(0, dot));
  if (whole && std::abs(*whole) < kLatestNs / 1000) {
    std::int64_t fraction = 0;
    std::int64_t digit = 100;
    bool plain = true;
    for (const char c : dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1)) {
      if (c < '0' || c > '9') plain = false;
      if (digit > 0 && plain) fraction += digit * (c - '0');
      digit /= 10;
    }
    if (plain) return *whole * 1000 + (text.front() == '-' ? -fraction : fraction);
  }
  const auto value = parse_number<double>(text);
  if (!value || !(std::abs(*value) < static_cast<double>(kLatestNs / 1000))) return std::nullopt;
  return static_cast<std::int64_t>(*value * 1000);
}

// What a member's value is for.
enum class Use : std::uint8_t {
  kNone,
  kName,
  kCategory,
  kPhase,
  kBegin,
  kDuration,
  kCorrelation,
  kDevice,
  kStream,
  kDeviceType,
  kReserved,
  kCollective,
  kDtype,
  kGroupName,
  kGroupRanks,
  kInElements,
  kOutElements,
  kGroupSize,
  kSequence,
  kSourceRank,
  kTargetRank,
  kDeviceId,
  kDeviceName,
  kDeviceMemory,
  kRank,
  kWorldSize,
  kGroups,
  kNcclVersion,
  kHostName,
};

struct Word {
  std::string_view key;
  Use use;
};
constexpr Word kEventWords[] = {
    {"name", Use::kName}, {"cat", Use::kCategory}, {"ph", Use::kPhase}, {"ts", Use::kBegin}, {"dur", Use::kDuration}};
constexpr Word kArgumentWords[] = {{"correlation", Use::kCorrelation},
                                   {"device", Use::kDevice},
                                   {"stream", Use::kStream},
                                   {"Device Type", Use::kDeviceType},
                                   {"Total Reserved", Use::kReserved},
                                   {"Collective name", Use::kCollective},
                                   {"dtype", Use::kDtype},
                                   {"Process Group Name", Use::kGroupName},
                                   {"Process Group Ranks", Use::kGroupRanks},
                                   {"In msg nelems", Use::kInElements},
                                   {"Out msg nelems", Use::kOutElements},
                                   {"Group size", Use::kGroupSize},
                                   {"Seq", Use::kSequence},
                                   {"Src Rank", Use::kSourceRank},
                                   {"Dst Rank", Use::kTargetRank}};
constexpr Word kDeviceWords[] = {
    {"id", Use::kDeviceId}, {"name", Use::kDeviceName}, {"totalGlobalMem", Use::kDeviceMemory}};
constexpr Word kRankWords[] = {{"rank", Use::kRank},
                               {"world_size", Use::kWorldSize},
                               {"pg_count", Use::kGroups},
                               {"nccl_version", Use::kNcclVersion}};
constexpr std::string_view kInputDims = "Input Dims";
constexpr std::string_view kInputType = "Input type";

template <std::size_t Count>
Use use_of(const Word (&words)[Count], std::string_view key) {
  for (const Word& word : words) {
    if (word.key == key) return word.use;
  }
  return Use::kNone;
}

// nlohmann's names for what a parser meets. False ends the parsing.
class Handler {
 public:
  Handler(ByteSource& source, const std::function<Status(const ChromeEvent&)>& sink) : source_(source), sink_(sink) {}

  bool null() { return value(); }
  bool boolean(bool /*value*/) { return value(); }
  bool number_integer(std::int64_t number) { return integer(number); }
  bool number_unsigned(std::uint64_t number) {
    return number <= static_cast<std::uint64_t>(INT64_MAX) ? integer(static_cast<std::int64_t>(number)) : value();
  }
  bool number_float(double number, const std::string& text) {
    if (use_ == Use::kBegin || use_ == Use::kDuration) return time(nanoseconds(text));
    if (std::abs(number) < 9e18) return integer(static_cast<std::int64_t>(number));
    return value();
  }
  bool string(std::string& text) {
    if (input_ == kInputType && depth_ == event_depth_ + 2 && event_.input_type.empty()) event_.input_type = text;
    take(text);
    return value();
  }
  bool binary(Json::binary_t& /*bytes*/) { return value(); }
  bool key(std::string& key) {
    use_ = Use::kNone;
    if (depth_ == 1 && !is_list_) {
      member_ = key;
      if (key == "host_name") use_ = Use::kHostName;
      if (trace_.members.size() < kMostMembers) trace_.members.push_back(key.substr(0, kLongestKept));
    } else if (in_event() && depth_ == event_depth_) {
      use_ = use_of(kEventWords, key);
      in_arguments_ = key == "args";
    } else if (in_event() && in_arguments_ && depth_ == event_depth_ + 1) {
      use_ = use_of(kArgumentWords, key);
      const bool of_input = (key == kInputDims || key == kInputType) && is_backend_range(event_.name);
      input_ = !of_input ? std::string_view() : key == kInputDims ? kInputDims : kInputType;
    } else if (member_ == "deviceProperties" && depth_ == 3) {
      use_ = use_of(kDeviceWords, key);
    } else if (member_ == "distributedInfo" && depth_ == 2) {
      use_ = use_of(kRankWords, key);
    }
    return true;
  }
  bool start_object(std::size_t /*members*/) {
    ++depth_;
    use_ = Use::kNone;
    if (depth_ == event_depth_ && in_events_) {
      trace_.has_events = true;
      event_ = {};
    }
    if (depth_ == 3 && member_ == "deviceProperties") device_ = {ChromeEvent::kNotTold, {}};
    return true;
  }
  bool end_object() {
    if (depth_ == event_depth_ && in_events_ && !hand_on()) return false;
    if (depth_ == 3 && member_ == "deviceProperties" && device_.first >= 0 && trace_.devices.size() < kMostDevices) {
      trace_.devices.insert(device_);
    }
    if (depth_ == event_depth_ + 1) {
      in_arguments_ = false;
      input_ = {};
    }
    --depth_;
    return value();
  }
  bool start_array(std::size_t /*elements*/) {
    ++depth_;
    use_ = Use::kNone;
    product_ = 1;
    is_list_ = is_list_ || depth_ == 1;
    if (depth_ == 1 || (depth_ == 2 && !is_list_ && member_ == "traceEvents")) {
      in_events_ = true;
      event_depth_ = depth_ + 1;
      trace_.has_events = trace_.has_events || depth_ == 2;
    }
    return true;
  }
  bool end_array() {
    if (depth_ == event_depth_ + 3 && input_ == kInputDims) add_input();
    if (depth_ == event_depth_ - 1) in_events_ = false;
    --depth_;
    return value();
  }
  bool parse_error(std::size_t place, const std::string& /*token*/, const Json::exception& failure) {
    const std::string_view what = failure.what();
    const std::size_t begin = what.find("parse error at ");
    failure_ = begin == std::string_view::npos
                   ? "malformed at byte " + std::to_string(place)
                   : valid_text(what.substr(begin + std::string_view("parse error ").size()));
    return false;
  }

  Result<ChromeTrace> result(bool parsed) {
    if (!source_.failure().empty()) return bad_input(source_.failure());
    if (refusal_) return *refusal_;
    if (!parsed) return bad_input("is no whole JSON: " + failure_ + "; was it cut short? Copy or record it again");
    return std::move(trace_);
  }

 private:
  [[nodiscard]] bool in_event() const { return in_events_ && depth_ >= event_depth_; }
  bool value() {
    use_ = Use::kNone;
    source_.mark();
    return true;
  }
  bool time(std::optional<std::int64_t> ns) {
    if (!ns) {
      refusal_ = bad_input("event " + std::to_string(trace_.events + 1) + ": its time is beyond any clock");
      return false;
    }
    if (use_ == Use::kBegin) {
      event_.begin_ns = *ns;
      event_.has_begin = true;
    } else {
      event_.duration_ns = *ns;
    }
    return value();
  }
  // A tensor's shape ended. What is more than any tensor has counts as not told.
  void add_input() {
    if (product_ > 0) event_.input_elements = std::max<std::int64_t>(event_.input_elements, 0) + product_;
    if (event_.input_elements > kMostElements) event_.input_elements = ChromeEvent::kNotTold;
  }
  bool integer(std::int64_t number) {
    if (input_ == kInputDims && depth_ == event_depth_ + 3) {
      const bool fits = number > 0 && product_ > 0 && number <= kMostElements / product_;
      product_ = fits ? product_ * number : 0;
      return value();
    }
    switch (use_) {
      case Use::kBegin:
      case Use::kDuration: {
        const bool fits = number > -kLatestNs / 1000 && number < kLatestNs / 1000;
        return time(fits ? std::optional(number * 1000) : std::nullopt);
      }
      case Use::kCorrelation:
        event_.correlation = number;
        break;
      case Use::kDevice:
        event_.device = number;
        break;
      case Use::kStream:
        event_.stream = number;
        break;
      case Use::kDeviceType:
        event_.device_type = number;
        break;
      case Use::kReserved:
        event_.total_reserved = number;
        break;
      case Use::kInElements:
        event_.in_elements = number;
        break;
      case Use::kOutElements:
        event_.out_elements = number;
        break;
      case Use::kGroupSize:
        event_.group_size = number;
        break;
      case Use::kSequence:
        event_.sequence = number;
        break;
      case Use::kSourceRank:
        event_.source_rank = number;
        break;
      case Use::kTargetRank:
        event_.target_rank = number;
        break;
      case Use::kGroups:
        trace_.groups = number;
        break;
      case Use::kDeviceId:
        device_.first = number;
        break;
      case Use::kDeviceMemory:
        device_.second.memory_bytes = number;
        break;
      case Use::kRank:
        trace_.rank = number;
        break;
      case Use::kWorldSize:
        trace_.world_size = number;
        break;
      default:
        break;
    }
    return value();
  }
  void take(std::string& text) {
    // A kernel's name may have kilobytes, and its beginning says all.
    if (text.size() > kLongestKept) text.resize(kLongestKept);
    switch (use_) {
      case Use::kName:
        event_.name.swap(text);
        break;
      case Use::kCategory:
        event_.category.swap(text);
        break;
      case Use::kPhase:
        event_.phase.swap(text);
        break;
      case Use::kCollective:
        event_.collective.swap(text);
        break;
      case Use::kDtype:
        event_.dtype.swap(text);
        break;
      case Use::kGroupName:
        event_.group_name.swap(text);
        break;
      case Use::kGroupRanks:
        event_.group_ranks.swap(text);
        break;
      case Use::kNcclVersion:
        trace_.nccl_version.swap(text);
        break;
      case Use::kDeviceName:
        device_.second.name.swap(text);
        break;
      case Use::kHostName:
        trace_.host_name.swap(text);
        break;
      default:
        break;
    }
  }
  bool hand_on() {
    ++trace_.events;
    Status status = sink_(event_);
    if (status.ok()) return true;
    refusal_ = status.error();
    return false;
  }

  ByteSource& source_;
  const std::function<Status(const ChromeEvent&)>& sink_;
  ChromeTrace trace_;
  ChromeEvent event_;
  std::pair<std::int64_t, ChromeDevice> device_;
  std::string member_;  // of the document, whose value is read
  Use use_ = Use::kNone;
  int depth_ = 0;
  int event_depth_ = 0;  // of an event's members
  bool is_list_ = false;
  bool in_events_ = false;
  bool in_arguments_ = false;
  std::string_view input_;    // which of an event's arguments about its inputs is read
  std::int64_t product_ = 1;  // of the tensor's shape so far
  std::string failure_;
  std::optional<Error> refusal_;
};

}  // namespace

bool is_backend_range(std::string_view name) {
  constexpr std::string_view kBackends[] = {"gloo:", "mpi:", "ucc:", "nccl:"};
  return std::ranges::any_of(kBackends, [name](std::string_view backend) { return name.starts_with(backend); });
}

Result<ChromeTrace> read_chrome_trace(ByteSource& source, const std::function<Status(const ChromeEvent&)>& sink) {
  Handler handler(source, sink);
  const bool parsed = Json::sax_parse(ByteIterator(source), ByteIterator(), &handler);
  return handler.result(parsed);
}

}  // namespace trimtab::published
