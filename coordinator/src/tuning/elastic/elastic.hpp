#pragma once

// An elastic job: how it goes on without nodes that are lost for good, and on more of them. It says when, and with
// which plan; whether ranks are ended and launched for it is the machine's. Sources: spare.cpp (a node fewer),
// growth.cpp (more nodes).

#include <map>
#include <set>
#include <string>

#include "schema/cluster.hpp"
#include "tuning/elastic/elastic_state.hpp"
#include "tuning/outcome.hpp"
#include "tuning/search/search_requests.hpp"
#include "tuning/view.hpp"

namespace trimtab::coordinator {

[[nodiscard]] std::int32_t ranks_on(const std::vector<NodeShare>& nodes);

class Elastic {
 public:
  Elastic(ElasticState& known, const View& view, SearchRequests& searches, Outcome& out)
      : known_(known), view_(view), searches_(searches), out_(out) {}

  // One node fewer: the best plan for what would be left is kept ready, or searched for.
  void prepare_spare();
  void take_spare(const SearchReply& reply);
  // The plan is for other costs than there are now.
  void forget_spare();
  // Nodes are away, the last of them since `lost_at`. For as long as ranks may be silent they are waited for, and a
  // plan for what is left is made ready; an elastic job then goes on without them, unless nothing of it may be ended
  // that nobody asked to end.
  [[nodiscard]] Next tick_lost(Nanoseconds lost_at);
  struct Left {
    Cluster cluster;
    std::map<std::int32_t, double> slow_devices;
  };
  // Without the nodes that are away.
  [[nodiscard]] Left what_is_left() const;
  void add_resize(Resize resize);
  // The first step on other nodes.
  void tell_where_it_goes_on(std::int64_t first);

  // Whether nodes may be offered now: the job has fewer devices than it asked for, and is calm.
  [[nodiscard]] bool takes_nodes() const;
  // A plan for them is searched for, where they can be used.
  void offered(const NodesOffered& offered);
  [[nodiscard]] const NodesOffered& offer() const { return offer_; }
  [[nodiscard]] SearchTask growth_task() const;
  // The plan with which the job is to be begun anew on them; null = they are not used.
  [[nodiscard]] const PricedPlan* take_growth(const SearchReply& reply);
  // The larger cluster's first plan has been measured. Why the job goes back; empty = it does not.
  [[nodiscard]] std::string judge_growth(const Measured& now);
  // Launches that do not live on more nodes are no reason to give the job up.
  [[nodiscard]] bool gives_up_growth(std::int32_t crashes) const;
  // What the job goes back to, and why.
  [[nodiscard]] Before leave_growth(const std::string& why);

 private:
  [[nodiscard]] Cluster slowed_left(const std::set<std::string>& missing) const;
  [[nodiscard]] bool has_no_spare(const Cluster& left) const;
  void search_spare(const Cluster& left);
  [[nodiscard]] bool lost_what_joined() const;
  void wait_for_lost(Nanoseconds lost_at);

  ElasticState& known_;
  const View& view_;
  SearchRequests& searches_;
  Outcome& out_;
  Nanoseconds wait_told_{-1};   // since when nodes were away when people were told that nothing is done about it
  ClusterText no_spare_;        // the cluster that no plan was found for; empty = none of late
  Nanoseconds no_spare_at_{0};  // when that was
  NodesOffered offer_;          // that a search is going on for
};

}  // namespace trimtab::coordinator
