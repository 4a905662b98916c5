#pragma once

// Who is not let in any more, whatever certificate or token is shown: the deny list that 'trimtab cert revoke' writes.
// A file of lines 'name NAME' and 'serial HEX', where '#' begins a comment. A name is that of certificates of any kind
// and of tokens. A serial number is a certificate's.

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "net/certificates.hpp"

namespace trimtab::net {

// One line. Plain value.
struct Denied {
  enum class Kind { kName, kSerial };
  Kind kind = Kind::kName;
  std::string text;  // a serial number in capitals, without leading zeros

  auto operator<=>(const Denied&) const = default;
};

// A name is 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-'. 16 or more hexadecimal digits, with ':' between them or
// without, are a serial number. What may be either is both, as a container's id that is a node's name: the name first.
[[nodiscard]] Result<std::vector<Denied>> parse_denied(std::string_view text);
// "name n0", as it stands in the file.
[[nodiscard]] std::string line_of(const Denied& denied);

class DenyList final {
 public:
  // A line that stands there twice is an error, too.
  [[nodiscard]] static Result<DenyList> parse(std::string_view text, const std::string& source);

  [[nodiscard]] bool contains(const Denied& denied) const { return entries_.contains(denied); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  // What `other` denies is denied, too.
  void add(const DenyList& other) { entries_.insert(other.entries_.begin(), other.entries_.end()); }
  // Those of `before` that are not in this list, as "name n0, serial 1A2B". Empty: none.
  [[nodiscard]] std::string freed(const DenyList& before) const;
  // Why it is not let in, as "name n0" or "serial 1A2B"; nothing: it is.
  [[nodiscard]] std::optional<std::string> denies(const PeerIdentity& peer) const;
  [[nodiscard]] std::optional<std::string> denies_name(const std::string& name) const;

 private:
  std::set<Denied> entries_;
};

// Such a file, read again without a restart. One that is not there denies nobody; one that goes away while it is used
// is an error, and what it said stays. One that is empty, or whose last line has no end, is taken to be half written:
// who was denied stays denied beside who stands there. Used on one thread.
class DenyFile final {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DenyFile>> load(const std::string& path);
  ~DenyFile();
  // As Credentials::reload().
  [[nodiscard]] Result<bool> reload(bool in_any_case = false);
  // Whom the last reload() has let in again, as freed() says it.
  [[nodiscard]] const std::string& freed() const;
  [[nodiscard]] const DenyList& list() const;
  [[nodiscard]] const std::string& path() const;

 private:
  struct Implementation;
  explicit DenyFile(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace trimtab::net
