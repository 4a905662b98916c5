#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "arguments.hpp"
#include "doctor/services.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "net/certificates.hpp"
#include "net/deny_list.hpp"
#include "net/granting_file.hpp"
#include "schema/state_directory.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

constexpr const char* kAuthority = "ca";

struct Arguments {
  std::string directory;
  std::string out;
  std::string kind;
  std::string name;
  std::string cluster = "trimtab";
  std::string tenant;
  std::vector<std::string> hosts;
  std::vector<std::string> files;
  std::string days;
  std::string deny_list;
  std::string configuration = "/etc/trimtab";
  bool json = false;
};

std::string path_of(const std::string& directory, const std::string& name, const char* ending) {
  return directory + "/" + name + ending;
}

// "2027-03-01".
std::string date_of(Nanoseconds time) {
  const auto seconds = static_cast<std::time_t>(std::chrono::duration_cast<std::chrono::seconds>(time).count());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[16] = {};
  return std::strftime(text, sizeof text, "%Y-%m-%d", &parts) > 0 ? text : "";
}

// The key first: a certificate without its key is of no use to anybody, the other way round it is only unfinished.
Status store(const net::Certificate& made, const std::string& directory, const std::string& name) {
  TRIMTAB_TRY_STATUS(write_private_file(path_of(directory, name, ".key"), made.key));
  return replace_file(path_of(directory, name, ".crt"), made.certificate);
}

Result<net::CertificateRequest> request_of(const Arguments& arguments) {
  TRIMTAB_TRY(const std::uint64_t days, parse_count("--days", arguments.days));
  net::CertificateRequest request;
  request.hosts = arguments.hosts;
  request.now = SystemClock().wall();
  request.valid_for = std::chrono::hours(24) * static_cast<std::int64_t>(std::min<std::uint64_t>(days, 1'000'000));
  return request;
}

void tell(const std::string& what, const std::string& directory, const std::string& name, const net::Certificate& made,
          bool as_json, Console& console) {
  const auto described = net::describe_certificate(made.certificate, name);
  const std::string expires = described.ok() ? date_of(described->owner.expires) : "";
  if (as_json) {
    console.out << json_text({{"certificate", path_of(directory, name, ".crt")},
                              {"key", path_of(directory, name, ".key")},
                              {"expires", expires}})
                << "\n";
    return;
  }
  console.out << what << " until " << expires << ": " << path_of(directory, name, ".crt") << ", its key "
              << path_of(directory, name, ".key") << "\n";
}

Result<int> init(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY_STATUS(make_private_directories(arguments.directory));
  TRIMTAB_TRY(const Descriptor lock, lock_directory(arguments.directory));
  const std::string certificate = path_of(arguments.directory, kAuthority, ".crt");
  const std::string key = path_of(arguments.directory, kAuthority, ".key");
  if (std::filesystem::exists(certificate) || std::filesystem::exists(key)) {
    return no(arguments.directory +
              " has an authority already, and every certificate by it would be worthless; choose another --dir");
  }
  TRIMTAB_TRY(net::CertificateRequest request, request_of(arguments));
  request.kind = net::CertificateKind::kAuthority;
  request.name = arguments.cluster;
  TRIMTAB_TRY(const net::Certificate made, net::make_authority(request));
  TRIMTAB_TRY_STATUS(store(made, arguments.directory, kAuthority));
  tell("authority " + arguments.cluster, arguments.directory, kAuthority, made, arguments.json, console);
  return 0;
}

Result<int> issue(const Arguments& arguments, Console& console) {
  const auto kind = net::parse_certificate_kind(arguments.kind);
  if (!kind || *kind == net::CertificateKind::kAuthority) {
    return bad_input("a certificate is a coordinator's, a node's or a person's, but found '" + arguments.kind + "'");
  }
  if (arguments.name == kAuthority) return bad_input("'ca' is the authority's own name; choose another one");
  net::Certificate authority;
  TRIMTAB_TRY(authority.certificate, read_file(path_of(arguments.directory, kAuthority, ".crt")));
  TRIMTAB_TRY(authority.key, read_file(path_of(arguments.directory, kAuthority, ".key")));
  TRIMTAB_TRY(net::CertificateRequest request, request_of(arguments));
  request.kind = *kind;
  request.name = arguments.name;
  request.tenant = arguments.tenant;
  TRIMTAB_TRY(const net::Certificate made, net::issue_certificate(authority, request));
  const std::string out = arguments.out.empty() ? arguments.directory : arguments.out;
  TRIMTAB_TRY_STATUS(make_private_directories(out));
  TRIMTAB_TRY_STATUS(store(made, out, arguments.name));
  if (out != arguments.directory) {
    TRIMTAB_TRY_STATUS(replace_file(path_of(out, kAuthority, ".crt"), authority.certificate));
  }
  tell(arguments.kind + " " + arguments.name, out, arguments.name, made, arguments.json, console);
  return 0;
}

// 1 where one has expired.
Result<int> show(const Arguments& arguments, Console& console) {
  const Nanoseconds now = SystemClock().wall();
  TextTable table({"certificate", "of", "kind", "by", "tenant", "valid until", "hosts"});
  json list = json::array();
  bool all_valid = true;
  for (const std::string& file : arguments.files) {
    TRIMTAB_TRY(const std::string pem, read_file(file));
    TRIMTAB_TRY(const net::CertificateDescription one, net::describe_certificate(pem, file));
    const bool expired = one.owner.expires <= now;
    all_valid = all_valid && !expired;
    const std::string kind = one.owner.kind ? std::string(to_string(*one.owner.kind)) : "unknown";
    table.add({file, printable(one.owner.name), kind, printable(one.issuer), printable(one.owner.tenant.value_or("")),
               date_of(one.owner.expires) + (expired ? " (expired)" : ""), printable(joined(one.hosts))});
    list.push_back({{"file", file},
                    {"name", one.owner.name},
                    {"kind", kind},
                    {"issuer", one.issuer},
                    {"tenant", one.owner.tenant ? json(*one.owner.tenant) : json()},
                    {"serial", one.serial},
                    {"expires", date_of(one.owner.expires)},
                    {"expired", expired},
                    {"hosts", one.hosts}});
  }
  console.out << (arguments.json ? json_text({{"certificates", list}}, 2) + "\n" : table.str());
  return all_valid ? 0 : 1;
}

// Where the coordinator of this machine reads it, by its configuration.
Result<std::string> deny_list_of(const Arguments& arguments) {
  if (!arguments.deny_list.empty()) return arguments.deny_list;
  const std::string path = arguments.configuration + "/coordinator.toml";
  const auto settings = read_coordinator_settings(path);
  if (settings.ok() && !settings->deny_list.empty()) return settings->deny_list;
  if (settings.ok() && !settings->state_directory.empty()) return settings->state_directory + "/denied";
  const std::string packaged = "/var/lib/trimtab/coordinator";
  if (settings.ok() && is_there(packaged)) return packaged + "/denied";
  return bad_input("--deny-list: name the file that the coordinator reads. It is 'denied' in its state directory " +
                   std::string("unless deny_list in coordinator.toml names another, but ") +
                   (settings.ok() ? path + " names neither" : settings.error().message));
}

Result<int> revoke(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const std::vector<net::Denied> denied, net::parse_denied(arguments.name));
  TRIMTAB_TRY(const std::string path, deny_list_of(arguments));
  bool is_new = false;
  const auto with_denied = [&](const std::string& text) -> Result<std::string> {
    TRIMTAB_TRY(const net::DenyList list, net::DenyList::parse(text, path));
    std::string lines = text;
    for (const net::Denied& one : denied) {
      if (list.contains(one)) continue;
      if (!lines.empty() && lines.back() != '\n') lines += '\n';
      lines += net::line_of(one) + "\n";
      is_new = true;
    }
    return lines;
  };
  // Others may read it: it is the coordinator's user who must.
  TRIMTAB_TRY_STATUS(change_shared_file(path, 0644, with_denied));
  TRIMTAB_TRY_STATUS(net::check_granting_file(path, ::geteuid()));
  std::string what;
  for (const net::Denied& one : denied) what += (what.empty() ? "" : " and ") + net::line_of(one);
  if (arguments.json) {
    console.out << json_text({{"denied", what}, {"file", path}, {"new", is_new}}) << "\n";
    return 0;
  }
  console.out << what << (is_new ? " is denied from now on: " : " was denied already: ") << path << "\n";
  console.err << "the coordinator that reads this file does so within five seconds, and closes the links of whom it "
                 "denies. To take it back, remove the line\n";
  return 0;
}

void add_directory(CLI::App* verb, Arguments& arguments) {
  add_value(verb, "--dir", arguments.directory, "DIR", "Where the authority is: ca.crt and ca.key", Need::kRequired);
}

}  // namespace

void add_cert(CLI::App& root, Selection& selection) {
  CLI::App& group = add_group(root, "cert", "A small certificate authority for a cluster's TLS",
                              "trimtab cert init --dir ca --cluster lab");
  auto arguments = std::make_shared<Arguments>();
  arguments->days = "3650";
  CLI::App* verb = add_verb(group, "init", "Make the authority; keep its key off the nodes",
                            "trimtab cert init --dir ca --cluster lab");
  add_action(verb, selection, arguments, init);
  add_directory(verb, *arguments);
  add_value(verb, "--cluster", arguments->cluster, "NAME", "What the authority is called", Need::kHasDefault);
  add_value(verb, "--days", arguments->days, "N", "How long it is valid", Need::kHasDefault);

  arguments = std::make_shared<Arguments>();
  arguments->days = "365";
  verb = add_verb(group, "issue", "Issue a certificate and its key; issued again, it takes the old one's place",
                  "trimtab cert issue coordinator c0 --dir ca --host c0.lab --host 10.0.0.1 --out c0");
  add_action(verb, selection, arguments, issue);
  add_value(verb, "kind", arguments->kind, "coordinator|node|person", "What for", Need::kRequired);
  add_value(verb, "name", arguments->name, "NAME", "Of the node as its agent says it, of the person as the token does",
            Need::kRequired);
  add_directory(verb, *arguments);
  add_values(verb, "--host", arguments->hosts, "HOST",
             "DNS name or IP address that a coordinator, or a node's metrics, are asked under; repeat it")
      ->allow_extra_args(false);
  add_value(verb, "--days", arguments->days, "N", "How long it is valid, at most as long as the authority",
            Need::kHasDefault);
  add_value(verb, "--tenant", arguments->tenant, "NAME",
            "Whose jobs alone a node may run, '*' everybody's; needed where several tenants hand in jobs");
  add_value(verb, "-o,--out", arguments->out, "DIR", "Where to write NAME.crt, NAME.key and ca.crt (default: --dir)");

  arguments = std::make_shared<Arguments>();
  verb = add_verb(group, "show", "Print whose certificates these are and until when",
                  "trimtab cert show ca/ca.crt c0/c0.crt");
  add_action(verb, selection, arguments, show);
  add_values(verb, "files", arguments->files, "FILE", "Certificates (PEM)", Need::kRequired);

  arguments = std::make_shared<Arguments>();
  verb = add_verb(group, "revoke", "Shut out who shows a certificate or token of this name, or this certificate",
                  "trimtab cert revoke n0");
  add_action(verb, selection, arguments, revoke);
  add_value(verb, "name", arguments->name, "NAME|SERIAL",
            "A name of nodes, people and tokens, or the serial number of one certificate; what may be either is both",
            Need::kRequired);
  add_value(verb, "--deny-list", arguments->deny_list, "FILE",
            "The file that the coordinator reads (default: as its configuration says)");
  add_value(verb, "--configuration", arguments->configuration, "DIR", "Where coordinator.toml is", Need::kHasDefault);
}

}  // namespace trimtab::cli
