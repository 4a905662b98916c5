#include <filesystem>

#include "base/text_parts.hpp"
#include "files.hpp"
#include "json_text.hpp"
#include "net/tokens.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

struct Arguments {
  std::string tokens;
  std::string name;
  std::string role = "view";
  std::string tenant;
  std::vector<std::string> nodes;
  std::string out;
  bool json = false;
};

Result<net::Tokens> read_tokens(const std::string& path) {
  TRIMTAB_TRY(const std::string text, read_file(path));
  return net::Tokens::parse(text, path);
}

Result<int> add(const Arguments& arguments, Console& console) {
  const auto role = net::parse_role(arguments.role);
  if (!role) return bad_input("--role: expected view, operate, costs or agent, but found '" + arguments.role + "'");
  if (*role == net::Role::kAgent && arguments.tenant.empty()) {
    return bad_input(
        "--tenant: an agent's token says whose jobs its node may run: name the tenant, or '*' where it runs "
        "everybody's");
  }
  const bool of_costs = *role == net::Role::kCosts;
  if (of_costs && !arguments.tenant.empty() && arguments.tenant != net::kEveryTenant) {
    return bad_input(
        "--tenant: costs are the cluster's and no tenant's, so a token of the role costs has none: leave "
        "--tenant out, but found '" +
        arguments.tenant + "'");
  }
  TRIMTAB_TRY(const std::string token, net::new_token());
  const std::string own = of_costs ? net::kEveryTenant : arguments.name;
  const std::string tenant = arguments.tenant.empty() ? own : arguments.tenant;
  bool begins_several = false;
  const auto with_token = [&](const std::string& text) -> Result<std::string> {
    TRIMTAB_TRY(net::Tokens tokens, net::Tokens::parse(text, arguments.tokens));
    begins_several = !tokens.has_several_tenants();
    TRIMTAB_TRY_STATUS(tokens.add({arguments.name, *role, tenant, arguments.nodes}, token));
    begins_several = begins_several && tokens.has_several_tenants();
    // The token first: one that nobody has is worse than one that is not known yet.
    if (!arguments.out.empty()) TRIMTAB_TRY_STATUS(write_private_file(arguments.out, token + "\n"));
    return tokens.text();
  };
  TRIMTAB_TRY_STATUS(change_shared_file(arguments.tokens, 0600, with_token));
  if (begins_several) {
    console.err << "several tenants hand in jobs from now on: each node must show whose it runs (docs/security.md, "
                   "\"Whose jobs a node runs\"), and until it does it is given no further one\n";
  }
  if (!arguments.out.empty()) {
    console.err << "wrote the token of " << arguments.name << " to " << arguments.out << "\n";
  } else if (arguments.json) {
    console.out << json_text({{"name", arguments.name}, {"token", token}}) << "\n";
  } else {
    console.out << token << "\n";
    console.err << "this is the token of " << arguments.name << "; it is shown this once and kept nowhere\n";
  }
  return 0;
}

Result<int> remove(const Arguments& arguments, Console& console) {
  if (const auto there = read_tokens(arguments.tokens); !there.ok()) return there.error();
  const auto without_token = [&](const std::string& text) -> Result<std::string> {
    TRIMTAB_TRY(net::Tokens tokens, net::Tokens::parse(text, arguments.tokens));
    if (tokens.remove(arguments.name)) return tokens.text();
    return no(arguments.tokens + ": there is no token of the name '" + arguments.name + "'");
  };
  TRIMTAB_TRY_STATUS(change_shared_file(arguments.tokens, 0600, without_token));
  console.out << (arguments.json ? json_text({{"removed", arguments.name}}) : "removed the token of " + arguments.name)
              << "\n";
  return 0;
}

Result<int> list(const Arguments& arguments, Console& console) {
  TRIMTAB_TRY(const net::Tokens tokens, read_tokens(arguments.tokens));
  TextTable table({"name", "role", "tenant", "nodes"});
  json entries = json::array();
  for (const net::TokenOwner& owner : tokens.owners()) {
    table.add({owner.name, std::string(to_string(owner.role)), owner.tenant, joined(owner.nodes, ",")});
    json entry{{"name", owner.name}, {"role", to_string(owner.role)}, {"tenant", owner.tenant}};
    if (!owner.nodes.empty()) entry["nodes"] = owner.nodes;
    entries.push_back(std::move(entry));
  }
  console.out << (arguments.json ? json_text({{"tokens", entries}}, 2) + "\n" : table.str());
  return 0;
}

CLI::App* add_part(CLI::App& group, Selection& selection, const std::shared_ptr<Arguments>& arguments,
                   Result<int> (*body)(const Arguments&, Console&), const char* name, const char* description) {
  CLI::App* verb = add_verb(group, name, description,
                            "trimtab token " + std::string(name) + (body == list ? "" : " ana") + " --tokens tokens");
  add_value(verb, "--tokens", arguments->tokens, "FILE", "The coordinator's file of tokens, which holds hashes alone",
            Need::kRequired);
  add_action(verb, selection, arguments, body);
  return verb;
}

}  // namespace

void add_token(CLI::App& root, Selection& selection) {
  CLI::App& group = add_group(root, "token", "Tokens by which people and scripts show the coordinator who they are",
                              "trimtab token add ana --role operate --tokens /etc/trimtab/tokens");
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_part(group, selection, arguments, add, "add", "Make a token and print it, this once");
  add_value(verb, "name", arguments->name, "NAME", "Whose it is; under TLS also the name in the certificate",
            Need::kRequired);
  add_value(verb, "--role", arguments->role, "view|operate|costs|agent", "What it may", Need::kHasDefault);
  add_value(verb, "--tenant", arguments->tenant, "NAME",
            "Whose jobs it sees, an agent's: runs; '*' all (default: those of NAME, of an agent none, of costs '*')");
  add_values(
      verb, "--node", arguments->nodes, "NODE",
      "Of an agent's without TLS: the nodes that it may be, which no other token may (default: any that nobody has)");
  add_value(verb, "-o,--out", arguments->out, "FILE", "Write the token there and do not print it");
  arguments = std::make_shared<Arguments>();
  verb = add_part(group, selection, arguments, remove, "remove", "Make a token worthless");
  add_value(verb, "name", arguments->name, "NAME", "Whose", Need::kRequired);
  arguments = std::make_shared<Arguments>();
  add_part(group, selection, arguments, list, "list", "Print whose tokens there are and what they may");
}

}  // namespace trimtab::cli
