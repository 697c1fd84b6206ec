// A rank that all-reduces with Gloo's ring over TCP.
#include <exception>
#include <memory>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "rank.h"

static void barrier(void *context) {
    gloo::BarrierOptions options(*static_cast<std::shared_ptr<gloo::Context> *>(context));
    gloo::barrier(options);
}

static void all_reduce(void *context, float *tensor, size_t elements) {
    gloo::AllreduceOptions options(*static_cast<std::shared_ptr<gloo::Context> *>(context));
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(tensor, elements);
    options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
}

int main(int argc, char **argv) {
    const rank_options options = rank_parse(argc, argv);
    if (options.store == nullptr) {
        fprintf(stderr, "%s: --store is missing\n", argv[0]);
        return 2;
    }
    try {
        gloo::transport::tcp::attr attributes;
        attributes.hostname = options.address;
        auto device = gloo::transport::tcp::CreateDevice(attributes);
        gloo::rendezvous::FileStore store(options.store);
        auto rendezvous = std::make_shared<gloo::rendezvous::Context>(options.rank, options.world);
        rendezvous->connectFullMesh(store, device);
        std::shared_ptr<gloo::Context> context = rendezvous;
        const rank_calls calls = {&context, barrier, all_reduce};
        rank_run(&options, &calls);
        barrier(&context); // nobody closes while others still read
    } catch (const std::exception &error) {
        fprintf(stderr, "rank %d: %s\n", options.rank, error.what());
        return 1;
    }
    return 0;
}
