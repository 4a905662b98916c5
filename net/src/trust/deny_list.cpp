#include "net/deny_list.hpp"

#include <algorithm>
#include <sstream>

#include "net/tokens.hpp"
#include "trust/watched_file.hpp"

namespace trimtab::net {

namespace {

constexpr std::size_t kFewestDigits = 16;
constexpr std::string_view kName = "name";
constexpr std::string_view kSerial = "serial";

// As OpenSSL writes one; empty where it is none.
std::string serial_of(std::string_view text) {
  std::string digits;
  for (const char letter : text) {
    if (letter == ':') continue;
    const bool small = letter >= 'a' && letter <= 'f';
    if (!small && !(letter >= '0' && letter <= '9') && !(letter >= 'A' && letter <= 'F')) return "";
    digits += small ? static_cast<char>(letter - 'a' + 'A') : letter;
  }
  const auto first = digits.find_first_not_of('0');
  return first == std::string::npos ? "" : digits.substr(first);
}

std::string_view word_of(Denied::Kind kind) {
  return kind == Denied::Kind::kName ? kName : kSerial;
}

Error no_line(const std::string& source, int number) {
  return bad_input(source + ":" + std::to_string(number) +
                   ": a line of a deny list is 'name NAME' or 'serial HEX'; 'trimtab cert revoke NAME --deny-list " +
                   source + "' writes it");
}

// Of somebody's words what a message can hold.
std::string shown(std::string_view text) {
  std::string kept(text.substr(0, 64));
  for (char& one : kept) {
    if (one < ' ' || one > '~') one = '?';
  }
  return kept;
}

}  // namespace

Result<std::vector<Denied>> parse_denied(std::string_view text) {
  std::vector<Denied> denied;
  if (is_tenant_name(text)) denied.push_back({Denied::Kind::kName, std::string(text)});
  const auto digits = static_cast<std::size_t>(std::ranges::count_if(text, [](char one) { return one != ':'; }));
  if (std::string serial = serial_of(text); digits >= kFewestDigits && !serial.empty()) {
    denied.push_back({Denied::Kind::kSerial, std::move(serial)});
  }
  if (!denied.empty()) return denied;
  return bad_input(
      "a name (1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-') or a serial number (16 or more hexadecimal digits) is "
      "needed, but found '" +
      shown(text) + "'. 'trimtab cert show FILE --json' prints both");
}

std::string line_of(const Denied& denied) {
  return std::string(word_of(denied.kind)) + " " + denied.text;
}

Result<DenyList> DenyList::parse(std::string_view text, const std::string& source) {
  DenyList list;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string kind;
    std::string value;
    std::string more;
    if (!(words >> kind)) continue;
    words >> value;
    if (words >> more) return no_line(source, number);
    Denied denied{kind == kSerial ? Denied::Kind::kSerial : Denied::Kind::kName, value};
    if (kind == kSerial) denied.text = serial_of(value);
    const bool known = kind == kSerial || (kind == kName && is_tenant_name(value));
    if (!known || denied.text.empty()) return no_line(source, number);
    if (!list.entries_.insert(denied).second) {
      return bad_input(source + ":" + std::to_string(number) + ": '" + kind + " " + denied.text +
                       "' stands there twice: remove one of the lines");
    }
  }
  return list;
}

std::string DenyList::freed(const DenyList& before) const {
  std::string text;
  for (const Denied& one : before.entries_) {
    if (contains(one)) continue;
    text += (text.empty() ? "" : ", ") + line_of(one);
  }
  return text;
}

std::optional<std::string> DenyList::denies(const PeerIdentity& peer) const {
  if (auto named = denies_name(peer.name)) return named;
  const Denied serial{Denied::Kind::kSerial, serial_of(peer.serial)};
  return contains(serial) ? std::optional(line_of(serial)) : std::nullopt;
}

std::optional<std::string> DenyList::denies_name(const std::string& name) const {
  const Denied named{Denied::Kind::kName, name};
  return contains(named) ? std::optional(line_of(named)) : std::nullopt;
}

struct DenyFile::Implementation {
  explicit Implementation(const std::string& path) : file(path) {}

  Status read() {
    TRIMTAB_TRY(const std::string text, file.read(WatchedFile::Kind::kGrants));
    TRIMTAB_TRY(DenyList fresh, DenyList::parse(text, file.path()));
    if (text.empty() || text.back() != '\n') fresh.add(list);
    freed = fresh.freed(list);
    list = std::move(fresh);
    was_there = true;
    return {};
  }
  [[nodiscard]] bool is_there() const {
    struct ::stat seen {};
    return ::stat(file.path().c_str(), &seen) == 0;
  }

  WatchedFile file;
  DenyList list;
  std::string freed;
  bool was_there = false;
};

DenyFile::DenyFile(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
DenyFile::~DenyFile() = default;

Result<std::unique_ptr<DenyFile>> DenyFile::load(const std::string& path) {
  auto implementation = std::make_unique<Implementation>(path);
  if (implementation->is_there()) TRIMTAB_TRY_STATUS(implementation->read());
  return std::unique_ptr<DenyFile>(new DenyFile(std::move(implementation)));
}

Result<bool> DenyFile::reload(bool in_any_case) {
  Implementation& own = *implementation_;
  if (!own.was_there && !own.is_there()) return false;
  if (!in_any_case && !own.file.changed()) return false;
  TRIMTAB_TRY_STATUS(own.read());
  return true;
}

const std::string& DenyFile::freed() const {
  return implementation_->freed;
}

const DenyList& DenyFile::list() const {
  return implementation_->list;
}

const std::string& DenyFile::path() const {
  return implementation_->file.path();
}

}  // namespace trimtab::net
