#include "run/shared_folder.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "files.hpp"
#include "json_text.hpp"
#include "net/certificates.hpp"
#include "net/tokens.hpp"
#include "schema/state_directory.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr Nanoseconds kValid = std::chrono::hours(24 * 30);
constexpr Nanoseconds kAnswer = std::chrono::seconds(1);
constexpr const char* kAuthority = "ca";
constexpr const char* kServer = "coordinator";
constexpr const char* kPerson = "owner";  // of the token and of the certificate

net::CertificateRequest request_for(net::CertificateKind kind, const std::string& name, const Clock& clock) {
  net::CertificateRequest request;
  request.kind = kind;
  request.name = name;
  request.now = clock.wall();
  request.valid_for = kValid;
  return request;
}

// A node may be called as something else in the folder is.
std::string file_of_node(const std::string& node) {
  return "node-" + node;
}

std::string first_line(const std::string& path) {
  const auto text = read_own_file(path);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

}  // namespace

std::string to_json(const SharedCoordinator& coordinator) {
  return json_text({{"hosts", coordinator.hosts},
                    {"port", coordinator.port},
                    {"node", coordinator.node},
                    {"job", coordinator.job}},
                   2) +
         "\n";
}

Result<SharedCoordinator> parse_shared_coordinator(std::string_view text, std::string_view source) {
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return bad_input(std::string(source) + ": no JSON");
  try {
    return SharedCoordinator{document.at("hosts"), document.at("port"), document.at("node"), document.at("job")};
  } catch (const json::exception& failure) {
    return bad_input(std::string(source) + ": not a file that 'trimtab run' wrote: " + failure.what());
  }
}

Result<SharedFolder> SharedFolder::open(const std::string& path) {
  if (const Status made = make_private_directories(path); !made.ok()) {
    return wrap("the nodes of a job need a folder that all of them share (--shared DIR)", made.error());
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return unavailable(path + ": " + std::strerror(errno));
  if (info.st_uid != geteuid() || (info.st_mode & 077U) != 0) {
    return bad_input(path +
                     " will hold the keys of this job's nodes and must be yours alone (mode 0700): name "
                     "another folder by --shared, or run chmod 700 on it");
  }
  return SharedFolder(path);
}

Result<bool> SharedFolder::claim(const std::string& node) const {
  const Descriptor file(::open(in("first").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    if (errno != EEXIST) return unavailable("cannot write in " + path_ + ": " + std::strerror(errno));
    return claimed_by() == node;
  }
  const std::string line = node + "\n";
  if (write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return unavailable("cannot write in " + path_ + ": " + std::strerror(errno));
  }
  return true;
}

std::string SharedFolder::claimed_by() const {
  return first_line(in("first"));
}

net::CredentialFiles SharedFolder::credentials(const std::string& name) const {
  return {in(std::string(kAuthority) + ".crt"), in(name + ".crt"), in(name + ".key")};
}

Status SharedFolder::issue(const std::string& file, const net::CertificateRequest& request) const {
  net::Certificate authority;
  TRIMTAB_TRY(authority.certificate, read_file(in(std::string(kAuthority) + ".crt")));
  TRIMTAB_TRY(authority.key, read_file(in(std::string(kAuthority) + ".key")));
  TRIMTAB_TRY(const net::Certificate made, net::issue_certificate(authority, request));
  const net::CredentialFiles files = credentials(file);
  TRIMTAB_TRY_STATUS(write_private_file(files.key, made.key));
  return write_private_file(files.certificate, made.certificate);
}

Status SharedFolder::make_authority(const Clock& clock) const {
  TRIMTAB_TRY(const net::Certificate made,
              net::make_authority(request_for(net::CertificateKind::kAuthority, "trimtab-run", clock)));
  TRIMTAB_TRY_STATUS(write_private_file(in(std::string(kAuthority) + ".key"), made.key));
  return write_private_file(in(std::string(kAuthority) + ".crt"), made.certificate);
}

Status SharedFolder::make_tokens() const {
  net::Tokens tokens;
  TRIMTAB_TRY(const std::string token, net::new_token());
  TRIMTAB_TRY_STATUS(tokens.add({kPerson, net::Role::kOperate, net::kEveryTenant}, token));
  TRIMTAB_TRY_STATUS(write_private_file(in("token"), token + "\n"));
  return write_private_file(in("tokens"), tokens.text());
}

Address SharedFolder::asked_at(const std::string& host, std::uint16_t port) const {
  return {host, port, credentials(kPerson), in("token")};
}

Result<SharedUp> SharedFolder::found(const std::string& node, const Clock& clock) const {
  remove_if_there(in("coordinator.json"));
  TRIMTAB_TRY_STATUS(make_authority(clock));
  TRIMTAB_TRY_STATUS(make_tokens());
  std::vector<std::string> hosts = reachable_hosts();
  hosts.insert(hosts.end(), {"127.0.0.1", "localhost"});
  net::CertificateRequest server = request_for(net::CertificateKind::kCoordinator, kServer, clock);
  server.hosts = hosts;
  TRIMTAB_TRY_STATUS(issue(kServer, server));
  TRIMTAB_TRY_STATUS(issue(kPerson, request_for(net::CertificateKind::kPerson, kPerson, clock)));
  TRIMTAB_TRY_STATUS(issue(file_of_node(node), request_for(net::CertificateKind::kNode, node, clock)));
  return SharedUp{node, credentials(file_of_node(node)), asked_at("127.0.0.1", 0), credentials(kServer), in("tokens")};
}

Status SharedFolder::publish(const SharedCoordinator& coordinator) const {
  return write_private_file(in("coordinator.json"), to_json(coordinator));
}

void SharedFolder::leave() const {
  remove_if_there(in("coordinator.json"));
  remove_if_there(in("first"));
}

std::optional<SharedCoordinator> SharedFolder::told() const {
  const std::string path = in("coordinator.json");
  const auto text = read_own_file(path);
  if (!text.ok()) return std::nullopt;
  auto coordinator = parse_shared_coordinator(*text, path);
  return coordinator.ok() ? std::optional(*coordinator) : std::nullopt;
}

Result<SharedUp> SharedFolder::join(const SharedCoordinator& coordinator, const std::string& node,
                                    const Clock& clock) const {
  std::string why;
  for (const std::string& host : coordinator.hosts) {
    const Address address = asked_at(host, coordinator.port);
    const auto answer = CoordinatorClient(address).get("/v1/status", kAnswer);
    if (!answer.ok()) {
      why = answer.error().message;
      continue;
    }
    TRIMTAB_TRY_STATUS(issue(file_of_node(node), request_for(net::CertificateKind::kNode, node, clock)));
    return SharedUp{node, credentials(file_of_node(node)), address, {}, ""};
  }
  return unavailable("the coordinator on " + coordinator.node + " is not reached from here at port " +
                     std::to_string(coordinator.port) + " of " + joined(coordinator.hosts) + ": " + why +
                     ". Open the port between the nodes");
}

std::vector<std::string> reachable_hosts() {
  std::vector<std::string> hosts;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      const bool usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                          (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      std::array<char, NI_MAXHOST> text{};
      if (usable &&
          getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0) {
        hosts.emplace_back(text.data());
      }
    }
    freeifaddrs(all);
  }
  if (const std::string name = host_name(); !name.empty()) hosts.push_back(name);
  return hosts;
}

}  // namespace trimtab::cli
