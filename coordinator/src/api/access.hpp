#pragma once

// Who asks, and what they may. People and scripts show a token (net/tokens.hpp), under TLS also a person's certificate
// of the same name; agents show a node's certificate, or without TLS a token of the role agent, which also say whose
// jobs the node may run. Without a file of tokens, which only a loopback port may lack, everybody may everything. Whom
// the deny list names is not let in, whatever is shown. Event loop's thread only.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/log_pace.hpp"
#include "base/result.hpp"
#include "net/deny_list.hpp"
#include "net/server.hpp"
#include "net/tokens.hpp"
#include "tenants.hpp"

namespace trimtab::coordinator {

// What a route asks for. kOpen: nothing in it is anybody's secret.
enum class Need { kOpen, kView, kOperate, kReadCosts, kContribute };

struct Caller {
  std::string name;  // empty: nobody had to say
  net::Role role = net::Role::kOperate;
  std::string tenant = net::kEveryTenant;

  [[nodiscard]] bool sees_all() const { return tenant == net::kEveryTenant; }
  // What ranks printed.
  [[nodiscard]] bool sees_output() const { return net::may(role, net::Role::kOperate); }
  [[nodiscard]] bool sees(const std::string& owner) const { return coordinator::sees(tenant, owner); }
};

struct Denial {
  int status = 403;  // 401: who it is has not been shown
  std::string reason;
};

class Access {
 public:
  // Nothing of the two: there are no tokens, nobody is denied.
  Access(bool under_tls, std::unique_ptr<net::TokenFile> tokens, std::unique_ptr<net::DenyFile> denied = nullptr)
      : under_tls_(under_tls), tokens_(std::move(tokens)), denied_(std::move(denied)) {}

  // Either of the two. Tokens are in no reason.
  struct Answer {
    Caller caller;
    std::optional<Denial> denial;
  };
  [[nodiscard]] Answer person(const net::HttpRequest& request, Need need) const;
  [[nodiscard]] std::optional<Denial> agent(const net::HttpRequest& request) const;
  // What the connection of an agent has shown.
  struct AgentProof {
    std::optional<net::PeerIdentity> peer;
    std::string token;
  };
  // Of an agent whose hello names this node and this tenant (net::kEveryTenant: everybody; empty: it does not say):
  // whose jobs run there, empty = everybody's. Refused where its certificate, or without TLS its token, is for another
  // node or tenant, and where several tenants hand in jobs and nothing says which of them the node is for.
  [[nodiscard]] Result<std::string> check_node(const AgentProof& shown, const std::string& node,
                                               const std::string& tenant) const;

  // Whether jobs may be of more than one tenant.
  [[nodiscard]] bool has_several_tenants() const;
  // Why an agent that was let in would not be let in now, as this node; nothing: it would. "": whatever node it is.
  [[nodiscard]] std::optional<std::string> revoked(const AgentProof& shown, const std::string& node = "") const;

  // Whose token it is, of an agent without TLS; empty where tokens say nothing: under TLS, and where there are none.
  [[nodiscard]] std::string agent_owner(const std::string& token) const;
  // Whether there is an agent's token of this name that may say that it is this node.
  [[nodiscard]] bool may_have(const std::string& owner, const std::string& node) const;
  // Whether tokens say whose a node's name is: without TLS, where there are any.
  [[nodiscard]] bool names_are_of_tokens() const { return !under_tls_ && tokens_ != nullptr; }

  // The files' reload(); false where there is none.
  [[nodiscard]] Result<bool> reload(bool in_any_case);
  [[nodiscard]] Result<bool> reload_denied(bool in_any_case);
  // Whom that has let in again, as words. Empty: nobody.
  [[nodiscard]] std::string freed() const { return denied_ ? denied_->freed() : ""; }

 private:
  [[nodiscard]] std::optional<Denial> denied(const std::optional<net::PeerIdentity>& peer) const;
  [[nodiscard]] std::optional<Denial> denied(const net::TokenOwner& owner) const;
  [[nodiscard]] std::optional<Denial> refusal_of(const AgentProof& proof) const;

  bool under_tls_;
  std::unique_ptr<net::TokenFile> tokens_;
  std::unique_ptr<net::DenyFile> denied_;
};

// What is said of those who are turned away. Whoever reaches the port can cause it, so lines are few
// (base/log_pace.hpp); the counts are complete. No secret gets into it.
class RefusalLog {
 public:
  explicit RefusalLog(const Clock& clock) : clock_(clock) {}

  // `kind` is one of a few words: it becomes a metric's label. The others may be a peer's own words.
  void refused(const std::string& kind, const std::string& whom, const std::string& reason);
  [[nodiscard]] const std::map<std::string, double>& counts() const { return counts_; }

 private:
  const Clock& clock_;
  std::map<std::string, double> counts_;
  LogPace pace_;
};

}  // namespace trimtab::coordinator
