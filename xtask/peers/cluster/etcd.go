package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdCluster is three members of etcd. Each syncs its write-ahead log before it acknowledges, as etcd does unless told otherwise.
type etcdCluster struct {
	members []*embed.Etcd
	clients []*clientv3.Client
}

func loopbackURL() (url.URL, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	defer listener.Close()
	return url.URL{Scheme: "http", Host: listener.Addr().String()}, nil
}

func openEtcd(folder string, connections int) (cluster, error) {
	configs := make([]*embed.Config, members)
	var peers []string
	for member := range configs {
		config := embed.NewConfig()
		config.Name = "member-" + strconv.Itoa(member)
		config.Dir = filepath.Join(folder, config.Name)
		config.LogLevel = "fatal"
		ofPeers, err := loopbackURL()
		if err != nil {
			return nil, err
		}
		ofClients, err := loopbackURL()
		if err != nil {
			return nil, err
		}
		config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{ofPeers}, []url.URL{ofPeers}
		config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{ofClients}, []url.URL{ofClients}
		peers = append(peers, config.Name+"="+ofPeers.String())
		configs[member] = config
	}
	opened := &etcdCluster{}
	for _, config := range configs {
		config.InitialCluster = strings.Join(peers, ",")
		member, err := embed.StartEtcd(config)
		if err != nil {
			return nil, err
		}
		opened.members = append(opened.members, member)
	}
	for _, member := range opened.members {
		select {
		case <-member.Server.ReadyNotify():
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("the members are not ready")
		}
	}
	leader := opened.members[0]
	for _, member := range opened.members {
		if member.Server.Leader() == member.Server.MemberID() {
			leader = member
		}
	}
	endpoint := leader.Config().ListenClientUrls[0].String()
	for range connections {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
		if err != nil {
			return nil, err
		}
		opened.clients = append(opened.clients, client)
	}
	return opened, nil
}

func (cluster *etcdCluster) putter(client int) (func() error, error) {
	connection := cluster.clients[client%len(cluster.clients)]
	number := 0
	return func() error {
		number++
		// A key of its own for each put: an append, as the other stores have it.
		key := strconv.Itoa(client) + "-" + strconv.Itoa(number)
		_, err := connection.Put(context.Background(), key, string(payload))
		return err
	}, nil
}

func (cluster *etcdCluster) close() {
	for _, client := range cluster.clients {
		client.Close()
	}
	for _, member := range cluster.members {
		member.Close()
	}
}
