#pragma once

// How much of something several owners have taken, with a limit for all of them together and one for each: bytes of
// memory that peers and tenants can cause. What a single charge takes beyond a limit that nothing else uses is for the
// caller to allow. Pure; one owner thread.

#include <cstdint>
#include <map>
#include <string>

#include "base/check.hpp"

namespace trimtab {

struct AccountLimits {
  std::uint64_t together = 0;
  std::uint64_t each = 0;
};

class Account {
 public:
  explicit Account(AccountLimits limits) : limits_(limits) {}

  [[nodiscard]] const AccountLimits& limits() const { return limits_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::uint64_t used_by(const std::string& owner) const {
    const auto found = owners_.find(owner);
    return found == owners_.end() ? 0 : found->second;
  }

  // Whether `bytes` more of this owner keep both limits.
  [[nodiscard]] bool has_room(const std::string& owner, std::uint64_t bytes) const {
    return bytes <= limits_.each && bytes <= limits_.together && used_by(owner) <= limits_.each - bytes &&
           used_ <= limits_.together - bytes;
  }
  [[nodiscard]] bool is_over() const { return used_ > limits_.together; }
  [[nodiscard]] bool is_over(const std::string& owner) const { return used_by(owner) > limits_.each; }

  // Who has taken most; empty where nobody has taken anything.
  [[nodiscard]] std::string largest() const {
    const std::pair<const std::string, std::uint64_t>* most = nullptr;
    for (const auto& one : owners_) {
      if (most == nullptr || one.second > most->second) most = &one;
    }
    return most == nullptr ? std::string() : most->first;
  }

  void charge(const std::string& owner, std::uint64_t bytes) {
    if (bytes == 0) return;
    used_ += bytes;
    owners_[owner] += bytes;
  }
  // REQUIRES: the owner has taken as much.
  void give_back(const std::string& owner, std::uint64_t bytes) {
    if (bytes == 0) return;
    const auto found = owners_.find(owner);
    TRIMTAB_ASSERT(found != owners_.end() && found->second >= bytes, "nobody gives back what he has not taken");
    used_ -= bytes;
    found->second -= bytes;
    if (found->second == 0) owners_.erase(found);
  }

 private:
  AccountLimits limits_;
  std::uint64_t used_ = 0;
  std::map<std::string, std::uint64_t> owners_;  // none of 0
};

// One charge, given back with this. The account outlives it.
class Charge {
 public:
  Charge(Account& account, std::string owner, std::uint64_t bytes)
      : account_(account), owner_(std::move(owner)), bytes_(bytes) {
    account_.charge(owner_, bytes_);
  }
  ~Charge() { account_.give_back(owner_, bytes_); }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

  [[nodiscard]] const std::string& owner() const { return owner_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool is_of(const Account& account) const { return &account == &account_; }
  void change(std::uint64_t bytes) {
    account_.give_back(owner_, bytes_);
    account_.charge(owner_, bytes_ = bytes);
  }

 private:
  Account& account_;
  std::string owner_;
  std::uint64_t bytes_;
};

}  // namespace trimtab
