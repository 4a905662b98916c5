#include "doctor/certificates.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "files.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kSoon = std::chrono::hours(24 * 30);

using Paths = std::array<std::string, 3>;

bool withheld(const std::string& path) {
  return ::geteuid() != 0 && ::access(path.c_str(), R_OK) != 0 && errno == EACCES;
}

// In the child: the first that the user may not read, else the number of all.
[[noreturn]] void look_as(const passwd& user, const Paths& paths) {
  const bool changed =
      ::initgroups(user.pw_name, user.pw_gid) == 0 && ::setgid(user.pw_gid) == 0 && ::setuid(user.pw_uid) == 0;
  if (!changed) ::_exit(static_cast<int>(paths.size()));
  const auto closed = [](const std::string& path) { return ::access(path.c_str(), R_OK) != 0; };
  ::_exit(static_cast<int>(std::ranges::find_if(paths, closed) - paths.begin()));
}

// The first of the files that the user may not read; empty where there is none, or it cannot be told: it takes root,
// and a user that there is. Whoever asks the kernel as that user knows of directories and access lists, too.
std::string closed_to(const std::string& name, const Paths& paths) {
  const passwd* user = ::geteuid() == 0 && !name.empty() ? ::getpwnam(name.c_str()) : nullptr;
  if (user == nullptr) return "";
  const pid_t child = ::fork();
  if (child == 0) look_as(*user, paths);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  const bool told = child > 0 && WIFEXITED(status) && WEXITSTATUS(status) < static_cast<int>(paths.size());
  return told ? paths[static_cast<std::size_t>(WEXITSTATUS(status))] : "";
}

Check end_check(const std::string& path, Nanoseconds now) {
  const auto pem = read_file(path);
  if (!pem.ok())
    return {"certificate", Health::kFail, pem.error().message, "put it there, or change the configuration"};
  const auto described = net::describe_certificate(*pem, path);
  if (!described.ok()) return {"certificate", Health::kFail, described.error().message, "issue it anew"};
  return check_certificate(path, *described, now);
}

std::string kind_text(const net::PeerIdentity& one) {
  return one.kind ? "a certificate of the kind '" + std::string(to_string(*one.kind)) + "'"
                  : "a certificate of no kind that Trimtab knows";
}

std::string wanted_text(const CertificateHolder& holder) {
  const std::string named = holder.name.empty() ? "" : " " + holder.name;
  return std::string(to_string(holder.kind)) + named;
}

// The three together, as the daemon loads them.
Check set_check(const net::CredentialFiles& files, const CertificateHolder& holder, Nanoseconds now) {
  const std::string name = "TLS";
  const auto loaded = net::Credentials::load(files, now, reader_of(holder.user));
  if (!loaded.ok()) {
    return {name, Health::kFail, loaded.error().message,
            "see docs/operating.md, 'A certificate cannot be used'; the daemon does not start with it"};
  }
  const net::PeerIdentity& own = (*loaded)->own();
  if (own.kind != holder.kind || (!holder.name.empty() && own.name != holder.name)) {
    return {name, Health::kFail,
            files.certificate + " must be the certificate of " + wanted_text(holder) + ", but it is " + kind_text(own) +
                " of '" + own.name + "'",
            net::issue_command({holder.name, holder.kind}) + " makes the right one"};
  }
  const std::string closed = closed_to(holder.user, {files.authority, files.certificate, files.key});
  if (!closed.empty()) {
    return {name, Health::kFail, closed + " must be readable by " + holder.user + ", as whom the unit runs, but is not",
            "chown " + holder.user + " " + closed + ", and let it into the directories above"};
  }
  return {name, Health::kOk, files.key + " is the key to " + files.certificate + ", of " + wanted_text(holder), ""};
}

}  // namespace

std::vector<Check> certificate_checks(const net::CredentialFiles& files, const CertificateHolder& holder,
                                      Nanoseconds now) {
  std::vector<Check> checks;
  const Paths paths{files.certificate, files.authority, files.key};
  const auto closed = std::ranges::find_if(paths, [](const std::string& one) { return !one.empty() && withheld(one); });
  if (closed != paths.end()) {
    return {{"TLS", Health::kWarn, *closed + " cannot be read by this user, so the certificates were not looked at",
             "run 'trimtab doctor' as root, or as the daemon's user"}};
  }
  for (const std::string& path : {files.certificate, files.authority}) {
    if (!path.empty()) checks.push_back(end_check(path, now));
  }
  const bool whole = std::ranges::none_of(paths, [](const std::string& one) { return one.empty(); });
  // What a certificate by itself is lacking has been said.
  if (whole && overall(checks) != Health::kFail) checks.push_back(set_check(files, holder, now));
  return checks;
}

Check check_certificate(const std::string& path, const net::CertificateDescription& described, Nanoseconds now) {
  const Nanoseconds expires = described.owner.expires;
  const auto days = std::chrono::duration_cast<std::chrono::hours>(expires - now).count() / 24;
  const std::string whose = path + " of " + described.owner.name;
  if (expires - now > kSoon) {
    return {"certificate", Health::kOk, whose + ", " + std::to_string(days) + " days left", ""};
  }
  const bool is_authority = described.owner.kind == net::CertificateKind::kAuthority;
  const std::string remedy =
      is_authority
          ? "'trimtab cert init --dir NEW_CA_DIRECTORY' makes a new one; docs/operating.md, 'A certificate "
            "ends', says how it takes the old one's place"
          : net::issue_command(described.owner, described.hosts) + " makes a new one, which is read without a restart";
  if (expires > now)
    return {"certificate", Health::kWarn, whose + " ends in " + std::to_string(days) + " days", remedy};
  return {"certificate", Health::kFail, whose + " has expired", remedy};
}

Result<net::CertificateDescription> read_certificate(const std::string& path) {
  TRIMTAB_TRY(const std::string pem, read_file(path));
  return net::describe_certificate(pem, path);
}

uid_t reader_of(const std::string& user) {
  const passwd* known = user.empty() ? nullptr : ::getpwnam(user.c_str());
  return known == nullptr ? ::geteuid() : known->pw_uid;
}

std::vector<std::string> certificate_hosts(const std::string& path) {
  const auto described = read_certificate(path);
  return described.ok() ? described->hosts : std::vector<std::string>{};
}

}  // namespace trimtab::cli
