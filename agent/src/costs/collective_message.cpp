#include "costs/collective_message.hpp"

namespace trimtab::agent {
namespace {

wire::CollectiveStamp::Beside to_wire(CostSource::Beside beside) {
  if (beside == CostSource::Beside::kNothing) return wire::CollectiveStamp::NOTHING;
  if (beside == CostSource::Beside::kComputation) return wire::CollectiveStamp::COMPUTATION;
  return wire::CollectiveStamp::NOT_SAID;
}

}  // namespace

wire::FromAgent stamps_message(const CostOwner& owner, std::uint32_t rank, const std::vector<CollectiveStamp>& stamps) {
  wire::FromAgent message;
  wire::CollectiveStamps& body = *message.mutable_collective_stamps();
  body.set_job(owner.job);
  body.set_rank(rank);
  body.set_fingerprint_json(owner.fingerprint_json);
  for (const CollectiveStamp& stamp : stamps) {
    wire::CollectiveStamp& one = *body.add_stamps();
    one.set_communicator(stamp.communicator);
    one.set_function(stamp.function);
    one.set_sequence(stamp.sequence);
    one.set_peer(stamp.peer);
    one.set_ranks(stamp.ranks);
    one.set_rank(stamp.rank);
    one.set_nodes(stamp.nodes);
    one.set_algorithm(stamp.algorithm);
    one.set_protocol(stamp.protocol);
    one.set_channels(stamp.channels);
    one.set_bytes(static_cast<std::uint64_t>(stamp.bytes));
    one.set_begin_ns(stamp.begin_ns);
    one.set_duration_ns(stamp.end_ns - stamp.begin_ns);
    one.set_beside(to_wire(stamp.beside));
    if (!stamp.gpu_ahead) continue;
    one.set_gpu_ahead_ns(stamp.gpu_ahead->ns);
    one.set_gpu_unsure_ns(stamp.gpu_ahead->uncertainty_ns);
  }
  return message;
}

}  // namespace trimtab::agent
