#include "probes/rank_network.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

namespace trimtab::agent {

namespace {

std::string network_path(pid_t pid) {
  return "/proc/" + std::to_string(pid) + "/ns/net";
}

using NetworkId = std::pair<dev_t, ino_t>;

std::optional<NetworkId> network_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return NetworkId{found.st_dev, found.st_ino};
}

std::optional<std::string> number_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const int failure = ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failure == 0 ? std::optional<std::string>(text.data()) : std::nullopt;
}

// Addresses that need no scope to be reached by.
std::optional<std::string> plain_address(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) return number_of(address, sizeof(sockaddr_in));
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto& six = *reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr)) return std::nullopt;
  return number_of(address, sizeof(sockaddr_in6));
}

using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Result<Interfaces> all_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return unavailable(std::string("couldn't list network interfaces: ") + strerror(errno));
  return Interfaces(list, &::freeifaddrs);
}

Result<std::string> interface_address(const std::string& name) {
  TRIMTAB_TRY(const Interfaces list, all_interfaces());
  std::optional<std::string> best;
  int best_rank = 0;
  for (const ifaddrs* one = list.get(); one != nullptr; one = one->ifa_next) {
    const std::string_view found = one->ifa_name;
    const auto address = plain_address(one->ifa_addr);
    if (!address || !found.starts_with(name)) continue;
    const int rank = (found == name ? 2 : 0) + (one->ifa_addr->sa_family == AF_INET ? 1 : 0);
    if (best && rank <= best_rank) continue;
    best = address;
    best_rank = rank;
  }
  if (best) return *best;
  return unavailable("a link's probe needs the interface '" + name +
                     "', which the job's environment names (GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME); this network " +
                     "has none of that name with an address");
}

// No packet is sent: connecting a datagram socket only chooses the route.
Result<std::string> route_address(const std::string& towards) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int failure = ::getaddrinfo(towards.c_str(), "9", &hints, &found); failure != 0) {
    return unavailable("couldn't find an address of " + towards + ": " + ::gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const Descriptor descriptor(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage ours{};
  socklen_t length = sizeof ours;
  auto* const address = reinterpret_cast<sockaddr*>(&ours);
  const bool known = descriptor && ::connect(descriptor.get(), found->ai_addr, found->ai_addrlen) == 0 &&
                     ::getsockname(descriptor.get(), address, &length) == 0;
  const int failure = errno;
  const auto text = known ? number_of(address, length) : std::nullopt;
  if (text) return *text;
  return unavailable("a link's probe found no way from here to " + towards + ": " + std::strerror(failure) +
                     ". Name the job's interface by GLOO_SOCKET_IFNAME in its environment");
}

}  // namespace

std::vector<RankNetwork> networks_of(const std::vector<NetworkRank>& ranks) {
  std::vector<NetworkRank> sorted = ranks;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::map<NetworkId, std::size_t> known;
  std::vector<RankNetwork> networks;
  for (const NetworkRank& one : sorted) {
    const auto id = network_at(network_path(one.pid));
    if (!id) continue;  // it has ended
    const auto [place, added] = known.try_emplace(*id, networks.size());
    if (added) networks.emplace_back();
    networks[place->second].ranks.push_back(one);
  }
  return networks;
}

Status enter_network_of(pid_t pid) {
  const auto theirs = network_at(network_path(pid));
  if (!theirs) return unavailable("rank process " + std::to_string(pid) + " has ended");
  if (theirs == network_at("/proc/thread-self/ns/net")) return {};
  const Descriptor descriptor(::open(network_path(pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor && ::setns(descriptor.get(), CLONE_NEWNET) == 0) return {};
  const int failure = errno;
  return unavailable("rank process " + std::to_string(pid) + " lives in a network namespace of its own, which this " +
                     "agent may not enter (" + std::strerror(failure) + "): run the agent as root to have it probed");
}

Result<std::string> address_for(const std::string& interface, const std::string& towards) {
  return interface.empty() ? route_address(towards) : interface_address(interface);
}

std::string interface_with(const std::string& address) {
  const auto list = all_interfaces();
  if (!list.ok()) return "";
  for (const ifaddrs* one = list->get(); one != nullptr; one = one->ifa_next) {
    if (plain_address(one->ifa_addr) != address) continue;
    const std::string_view name = one->ifa_name;
    return std::string(name.substr(0, name.find(':')));  // an address may have a label behind the name
  }
  return "";
}

namespace {

constexpr std::size_t kReceived = 0;  // of a line's numbers
constexpr std::size_t kSent = 8;

std::optional<InterfaceBytes> numbers_of(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::array<std::uint64_t, kSent + 1> numbers{};
  for (std::uint64_t& one : numbers) {
    if (!(words >> one)) return std::nullopt;
  }
  return InterfaceBytes{numbers[kReceived], numbers[kSent]};
}

}  // namespace

std::optional<InterfaceBytes> parse_interface_bytes(std::string_view text, std::string_view interface) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.substr(0, colon) != interface) continue;
    return numbers_of(line.substr(colon + 1));
  }
  return std::nullopt;
}

InterfaceReading kernel_interface_bytes(const ProbeSocket& connection) {
  const std::string name = interface_with(connection.local_address());
  const bool within = !interface_with(connection.peer_address()).empty();
  if (name.empty() || within) return [] { return std::optional<InterfaceBytes>(); };
  return [name] {
    std::ifstream file("/proc/thread-self/net/dev");
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return parse_interface_bytes(text, name);
  };
}

}  // namespace trimtab::agent
